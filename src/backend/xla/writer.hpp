#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// StableHLO as text, an operation a line: what every PJRT plugin compiles.
namespace dtrain::backend::xla {

enum class Element { f32, bf16, s32, u8, i1 };

using Dims = std::vector<std::int64_t>;

struct Type {
  Element element = Element::f32;
  Dims dims;
  std::string text() const;  // "tensor<2x3xf32>"
  bool operator==(const Type&) const = default;
};

// A result in the program, by its name there.
struct Value {
  std::string name;
  Type type;
};

// Windows of a convolution over [batch, height, width, channels] in stride 1.
struct ConvolutionForm {
  std::string_view dimensions;  // "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
  int padding = 0;              // on all four sides
};

class Writer {
 public:
  // `exact`: products of floats keep all of their bits, on devices that would drop some to be fast.
  explicit Writer(bool exact) : exact_(exact) {}

  Value constant(double value, Type type);
  Value scalar(double value) { return constant(value, {Element::f32, {}}); }
  Value vector(const std::vector<float>& values);  // f32
  Value iota(Type type, int along);

  Value unary(std::string_view operation, const Value& a);
  // Of equal types; a scalar is spread over the other.
  Value binary(std::string_view operation, const Value& a, const Value& b);
  Value add(const Value& a, const Value& b) { return binary("add", a, b); }
  Value subtract(const Value& a, const Value& b) { return binary("subtract", a, b); }
  Value multiply(const Value& a, const Value& b) { return binary("multiply", a, b); }
  Value divide(const Value& a, const Value& b) { return binary("divide", a, b); }
  Value maximum(const Value& a, const Value& b) { return binary("maximum", a, b); }
  Value compare(std::string_view direction, const Value& a, const Value& b);  // "EQ", "GT": i1
  Value select(const Value& condition, const Value& yes, const Value& no);
  Value is_finite(const Value& a);                 // i1
  Value convert(const Value& a, Element element);  // itself where it is of that element already

  // Dimension i of `a` becomes dimension along[i].
  Value broadcast(const Value& a, Dims dims, const Dims& along);
  Value reshape(const Value& a, Dims dims);
  Value transpose(const Value& a, const Dims& order);
  Value reverse(const Value& a, const Dims& along);
  Value slice(const Value& a, const Dims& begin, const Dims& end);
  Value pad(const Value& a, const Dims& low, const Dims& high);  // with zeros
  // Over `over`, which are left out of the result; "add", "maximum", "minimum", "and".
  Value reduce(std::string_view operation, const Value& a, double initial, const Dims& over);
  Value stack(const std::vector<Value>& scalars);  // into a vector
  // One contracted dimension of each; f32.
  Value dot(const Value& a, const Value& b, int contract_a, int contract_b);
  Value convolution(const Value& a, const Value& b, ConvolutionForm form, Dims dims);  // f32

  // Largest of windows of size x size with that stride over [batch, height, width, channels], and each
  // window's gradient to its first largest element.
  Value max_windows(const Value& a, int size);
  Value scatter_to_largest(const Value& a, const Value& gradient, int size);

  // Sums over all replicas; one exchange for all values.
  std::vector<Value> all_reduce(const std::vector<Value>& values, int replicas);

  const std::string& body() const { return body_; }

 private:
  Value result(Type type);
  Value concatenate(const std::vector<Value>& vectors);
  void line(const Value& result, std::string_view text);
  std::string operand_types(const std::vector<Value>& operands) const;
  std::string region(std::string_view operation, Element element) const;

  bool exact_;
  int values_ = 0;
  std::string body_;
};

// "[1, 2, 3]"
std::string list(const Dims& values);

}  // namespace dtrain::backend::xla
