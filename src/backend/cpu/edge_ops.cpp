#include "backend/cpu/layouts.hpp"
#include "backend/cpu/weighted.hpp"

// Layers at the edges of a stage of a pipeline: from canonical order into the layouts that primitives like,
// and back.
namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

bool is_vector(const model::Shape& shape) { return shape.height * shape.width == 1; }

memory::dims dims_of(int images, const model::Shape& shape) {
  return {images, shape.channels, shape.height, shape.width};
}

memory::desc plain(int images, const model::Shape& shape) {
  if (is_vector(shape)) return {{images, shape.channels}, memory::data_type::f32, Tag::nc};
  return {dims_of(images, shape), memory::data_type::f32, Tag::nchw};
}

// What the convolutions of this machine ask for.
memory::desc favoured(int images, const model::Shape& shape) {
  const bool wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  const int block = wide ? 16 : 8;
  if (is_vector(shape) || shape.channels % block != 0) return plain(images, shape);
  return {dims_of(images, shape), memory::data_type::f32, wide ? Tag::nChw16c : Tag::nChw8c};
}

// A part of images that are `image_floats` apart, in canonical order and with the dimensions of `like`.
memory::desc part_of_images(const memory::desc& like, std::size_t image_floats) {
  const memory::dims dims = like.dims();
  memory::dims strides(dims.size(), 1);
  for (std::size_t d = dims.size() - 1; d-- > 1;) strides[d] = strides[d + 1] * dims[d + 1];
  strides[0] = static_cast<memory::dim>(image_floats);
  return {dims, memory::data_type::f32, strides};
}

class SliceOp final : public Op {
 public:
  SliceOp(const Builder& builder, const Place& place)
      : place_(place), offset_(std::get<model::Slice>(place.layer->operation).offset) {
    if (place.fused->inputs.front() != model::image_input) {
      throw std::logic_error(place.layer->name + ": a slice of what is not a stage's input");
    }
    const model::Shape& shape = place.layer->output;
    place.output->desc = favoured(builder.count, shape);
    part_desc_ = part_of_images(place.output->desc, place.layer->input_shapes[0].elements());
  }

  void bind(const Bindings& bindings) override {
    part_ = {part_desc_, *bindings.engine, nullptr};
    read_ = dnnl::reorder(part_, place_.output->value_memory);
    write_ = dnnl::reorder(place_.output->gradient_memory, part_);
  }

  void forward(const dnnl::stream& stream, bool) override {
    part_.set_data_handle(place_.inputs[0]->values() + offset_);
    dnnl::stream same = stream;
    read_.execute(same, part_, place_.output->value_memory);
  }
  void backward_parameters(const dnnl::stream&, bool) override {}
  void backward_inputs(const dnnl::stream& stream) override {
    if (place_.inputs[0]->gradient == no_buffer) return;
    part_.set_data_handle(place_.inputs[0]->gradients() + offset_);
    dnnl::stream same = stream;
    write_.execute(same, place_.output->gradient_memory, part_);
  }

 private:
  Place place_;
  std::size_t offset_;
  memory::desc part_desc_;
  memory part_;
  dnnl::reorder read_;
  dnnl::reorder write_;
};

class ConcatenateOp final : public Op {
 public:
  ConcatenateOp(const Builder& builder, const Place& place) : place_(place), team_(builder.team) {
    const int back = builder.moments - 1 - place.index;
    place.output->desc = output_desc(builder);
    memory::dim channel = 0;
    std::size_t element = 0;
    for (std::size_t i = 0; i < place.inputs.size(); ++i) {
      const model::Shape& shape = place.layer->input_shapes[i];
      Part part;
      if (by_channels()) {
        part.desc = place.output->desc.submemory_desc(dims_of(builder.count, shape), {0, channel, 0, 0});
      } else {
        part.desc = part_of_images(place.inputs[i]->desc, place.layer->output.elements());
        part.offset = element;
      }
      part.gradient = InputGradient(builder, place.inputs[i], place.accumulates[i], back);
      parts_.push_back(std::move(part));
      channel += shape.channels;
      element += shape.elements();
    }
  }

  void bind(const Bindings& bindings) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      part.gradient->bind(bindings);
      part.value_memory = {part.desc, *bindings.engine, place_.output->values() + part.offset};
      part.gradient_memory = {part.desc, *bindings.engine, place_.output->gradients() + part.offset};
      part.write = dnnl::reorder(place_.inputs[i]->value_memory, part.value_memory);
      if (part.gradient->wanted()) part.read = dnnl::reorder(part.gradient_memory, part.gradient->target());
    }
  }

  void forward(const dnnl::stream& stream, bool) override {
    dnnl::stream same = stream;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].write.execute(same, place_.inputs[i]->value_memory, parts_[i].value_memory);
    }
  }
  void backward_parameters(const dnnl::stream&, bool) override {}
  void backward_inputs(const dnnl::stream& stream) override {
    dnnl::stream same = stream;
    for (Part& part : parts_) {
      if (!part.gradient->wanted()) continue;
      memory target = part.gradient->target();
      part.read.execute(same, part.gradient_memory, target);
      part.gradient->finish(*team_, false);
    }
  }

 private:
  struct Part {
    memory::desc desc;
    std::size_t offset = 0;  // floats
    std::optional<InputGradient> gradient;
    memory value_memory;
    memory gradient_memory;
    dnnl::reorder write;
    dnnl::reorder read;
  };

  bool by_channels() const { return !is_vector(place_.layer->output); }

  // What a stage hands on is in canonical order; in between, what the inputs have, if channels lie there in
  // whole blocks.
  memory::desc output_desc(const Builder& builder) const {
    const memory::desc canonical = plain(builder.count, place_.layer->output);
    if (builder.gives_logits(place_.index) || !by_channels()) return canonical;
    const ActivationLayout layout = layout_of(place_.inputs[0]->desc);
    for (const Tensor* input : place_.inputs) {
      const ActivationLayout other = layout_of(input->desc);
      if (other.tag != layout.tag || input->desc.dims()[1] % layout.inner != 0) return canonical;
    }
    return {canonical.dims(), memory::data_type::f32, layout.tag};
  }

  Place place_;
  const Team* team_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Op> make_slice(const Builder& builder, const Place& place) {
  return std::make_unique<SliceOp>(builder, place);
}

std::unique_ptr<Op> make_concatenate(const Builder& builder, const Place& place) {
  return std::make_unique<ConcatenateOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
