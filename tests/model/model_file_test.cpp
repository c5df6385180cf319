#include "model/model_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/error.hpp"
#include "model/find_model.hpp"
#include "model/flops.hpp"
#include "model/zoo.hpp"

namespace {

using namespace dtrain;
using namespace dtrain::model;
using testing::HasSubstr;

namespace fs = std::filesystem;

Model example(const std::string& name) { return read_model(fs::path(DTRAIN_MODELS) / (name + ".toml")); }

class ModelFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("dtrain-model-file-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path written(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    return path();
  }
  fs::path path() const { return folder_ / "mine.toml"; }
  Model read(const std::string& text) const { return read_model(written(text)); }

  // A data error that names the file and, from 1, the line (0: none), and says these words.
  void expect_refused(const fs::path& file, int line, const std::string& what,
                      const std::string& advice) const {
    try {
      read_model(file);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::data);
      const std::string start =
          line == 0 ? file.string() + ": " : fmt::format("{}:{}: ", file.string(), line);
      EXPECT_EQ(std::string(error.what()).find(start), 0U) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(what));
      EXPECT_THAT(error.advice(), HasSubstr(advice));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  void expect_error(const std::string& text, int line, const std::string& what,
                    const std::string& advice) const {
    SCOPED_TRACE(text);
    expect_refused(written(text), line, what, advice);
  }

 private:
  fs::path folder_;
};

// A layer table in two lines.
std::string layer(const std::string& keys) { return "[[layer]]\n" + keys + "\n"; }
const std::string head = layer("type = \"dense\"\nout_features = 10");

TEST(ExampleModels, CnnIsTheZoosCnn) {
  const Model mine = example("cnn");
  const Model cnn = zoo().at("cnn").value();
  EXPECT_EQ(mine.name, cnn.name);
  ASSERT_EQ(mine.parameters.size(), cnn.parameters.size());
  for (std::size_t i = 0; i < cnn.parameters.size(); ++i) {
    EXPECT_EQ(mine.parameters[i].name, cnn.parameters[i].name);
    EXPECT_EQ(mine.parameters[i].dims, cnn.parameters[i].dims);
    EXPECT_EQ(mine.parameters[i].offset, cnn.parameters[i].offset);
  }
  EXPECT_EQ(initial_weights(mine, 7), initial_weights(cnn, 7));
  EXPECT_EQ(training_flops(mine), training_flops(cnn));
  EXPECT_EQ(fingerprint(mine), fingerprint(cnn));
}

TEST(ExampleModels, WideAndResidualAreAsTheySay) {
  const Model wide = example("wide");
  EXPECT_EQ(wide.parameter_count, 48U * 75 + 48 + 1024U * 48 * 64 + 1024 + 10U * 1024 + 10);
  const Model residual = example("residual");
  EXPECT_EQ(residual.parameter_count, 16U * 27 + 16 + 2 * (16U * 144 + 16) + 10U * 256 + 10);
  EXPECT_EQ(residual.layers[6].inputs, (std::vector<int>{2, 5}));
  EXPECT_EQ(residual.layers[6].output, (Shape{16, 16, 16}));
}

TEST(Fingerprint, TellsWhatIsComputedAndNotWhatItIsCalled) {
  const auto made = [](const std::string& name, int width, bool bias) {
    return build(
        name, {3, 32, 32}, 10,
        {{name + "1", Dense{width, bias}, {image_input}, {}, {}}, {name + "2", Dense{10}, {0}, {}, {}}});
  };
  EXPECT_EQ(fingerprint(made("a", 20, true)), fingerprint(made("b", 20, true)));
  EXPECT_NE(fingerprint(made("a", 20, true)), fingerprint(made("a", 21, true)));
  EXPECT_NE(fingerprint(made("a", 20, true)), fingerprint(made("a", 20, false)));
  EXPECT_EQ(fingerprint(made("a", 20, true)).size(), 16U);
}

TEST(FindModel, TakesNamesAndPaths) {
  EXPECT_EQ(find_model("mlp").parameter_count, zoo().at("mlp").value().parameter_count);
  EXPECT_EQ(find_model(std::string(DTRAIN_MODELS) + "/wide.toml").name, "wide");
  EXPECT_TRUE(is_model_file("wide.toml"));
  EXPECT_TRUE(is_model_file("./wide"));
  EXPECT_FALSE(is_model_file("cnn"));
  EXPECT_THROW(find_model("cn"), Error);
}

TEST_F(ModelFile, EveryKeyCounts) {
  const Model model = read(
      "name = \"all-keys_1\"\nclasses = 12\n" +
      layer("type = \"convolution\"\nname = \"c\"\nout_channels = 8\nkernel = 5\npadding = 2\nbias = false") +
      layer("type = \"batch_norm\"\nepsilon = 0.001\nmomentum = 0.25") + layer("type = \"relu\"") +
      layer("type = \"max_pool\"\nsize = 4\ninputs = [\"relu1\"]") +
      layer("type = \"add\"\ninputs = [\"pool1\", \"pool1\"]") +
      layer("type = \"dense\"\nout_features = 12\nbias = false"));
  EXPECT_EQ(model.name, "all-keys_1");
  EXPECT_EQ(model.classes, 12);
  const auto& convolution = std::get<Convolution>(model.layers[0].operation);
  EXPECT_EQ(convolution.out_channels, 8);
  EXPECT_EQ(convolution.kernel, 5);
  EXPECT_EQ(convolution.padding, 2);
  EXPECT_FALSE(convolution.bias);
  EXPECT_EQ(model.layers[0].name, "c");
  EXPECT_FLOAT_EQ(std::get<BatchNorm>(model.layers[1].operation).epsilon, 0.001F);
  EXPECT_FLOAT_EQ(std::get<BatchNorm>(model.layers[1].operation).momentum, 0.25F);
  EXPECT_EQ(std::get<MaxPool>(model.layers[3].operation).size, 4);
  EXPECT_EQ(model.layers[4].inputs, (std::vector<int>{3, 3}));
  EXPECT_FALSE(std::get<Dense>(model.layers[5].operation).bias);
  EXPECT_EQ(model.parameter_count, 8U * 75 + 16 + 12U * 8 * 64);
  EXPECT_EQ(read(head).name, "mine");
}

TEST_F(ModelFile, WhatIsNoTextIsRefused) {
  expect_refused(path(), 0, "no such file", "--model");
  expect_refused(path().parent_path(), 0, "is a folder", "TOML file");
  expect_error("", 0, "is empty", "TOML file");
  expect_error(" \n\n", 0, "is empty", "TOML file");
  expect_error(std::string("name = \"a\"\n\n\0", 13), 3, "zero byte", "TOML file");
  expect_error("name = \n", 1, "", "a model file is TOML");
  expect_error("name = \"a\"\nname = \"b\"\n", 2, "", "a model file is TOML");
  expect_error("\xff\xfe", 1, "", "a model file is TOML");
  const fs::path large = written("name = \"a\"");
  fs::resize_file(large, 100'000'000);
  expect_refused(large, 0, "1.0 MiB at most", "TOML file");
  const fs::path pipe = path().parent_path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, 0, "not a file", "TOML file");
}

TEST_F(ModelFile, WhatCannotBeReadIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root reads every file";
  fs::permissions(written(head), fs::perms::none);
  expect_refused(path(), 0, "cannot be read", "--model");
}

TEST_F(ModelFile, UnknownWordsNameTheNearest) {
  expect_error("clases = 10\n" + head, 1, "unknown key 'clases'", "did you mean 'classes'?");
  expect_error(layer("type = \"dense\"\nout_feature = 10"), 3, "layer 1: unknown key 'out_feature'",
               "did you mean 'out_features'?");
  expect_error(layer("type = \"relu\"\nkernel = 3"), 3, "unknown key 'kernel'", "known: type, name, inputs");
  expect_error(layer("type = \"convolutoin\"\nout_channels = 8"), 2, "unknown type 'convolutoin'",
               "did you mean 'convolution'?");
  expect_error(layer("type = \"lstm\"") + head, 2, "unknown type 'lstm'", "known: convolution, dense, relu");
  expect_error(layer("name = \"first\"\nout_channels = 8"), 1, "layer first: has no type",
               "convolution, dense");
  expect_error("[layers]\n" + head, 1, "unknown key 'layers'", "did you mean 'layer'?");
}

TEST_F(ModelFile, WrongKindsAreRefused) {
  expect_error("name = 3\n" + head, 1, "name is 3", "a word in quotes");
  expect_error("name = \"a b\"\n" + head, 1, "cannot be named 'a b'", "letters, digits");
  expect_error("classes = \"ten\"\n" + head, 1, "classes is 'ten'", "a whole number from 10");
  expect_error("layer = 3\n", 1, "layer is 3", "[[layer]]");
  expect_error("layer = [3]\n", 1, "layer is 3", "[[layer]]");
  expect_error("layer = []\n", 1, "has 0 layers", "[[layer]]");
  expect_error("name = \"none\"\n", 1, "has no layer", "[[layer]]");
  expect_error(layer("type = 7"), 2, "type is 7", "a word in quotes");
  expect_error(layer("type = \"dense\"\nout_features = 10.5"), 3, "out_features is 10.5", "a whole number");
  expect_error(layer("type = \"dense\"\nout_features = [10]"), 3, "out_features is of the kind array",
               "a whole number");
  expect_error(layer("type = \"dense\"\nout_features = 10\nbias = 1"), 4, "bias is 1", "true or false");
  expect_error(layer("type = \"dense\"\nout_features = 10\ninputs = \"image\""), 4, "inputs is 'image'",
               "[\"conv1\"]");
  expect_error(layer("type = \"dense\"\nout_features = 10\ninputs = [1]"), 4, "inputs is 1",
               "names of layers");
}

TEST_F(ModelFile, SizesHaveBounds) {
  const auto convolution = [](const std::string& keys) {
    return layer("type = \"convolution\"\n" + keys) + head;
  };
  expect_error(convolution("out_channels = 0"), 3, "out_channels is 0", "from 1 to 65536");
  expect_error(convolution("out_channels = -4"), 3, "out_channels is -4", "from 1 to 65536");
  expect_error(convolution("out_channels = 9223372036854775807"), 3, "9223372036854775807",
               "from 1 to 65536");
  expect_error(convolution("out_channels = 99999999999999999999"), 3, "", "a model file is TOML");
  expect_error(convolution("kernel = 3"), 1, "layer 1: has no out_channels", "add out_channels");
  expect_error(convolution("out_channels = 8\nkernel = 0"), 4, "kernel is 0", "from 1 to 32");
  expect_error(convolution("out_channels = 8\npadding = 3"), 4, "padding is 3", "from 0 to 2");
  expect_error(convolution("out_channels = 65536"), 1, "58982400 values", "16777216 at most");
  expect_error(layer("type = \"batch_norm\"\nepsilon = nan") + head, 3, "epsilon is nan", "a number from");
  expect_error(layer("type = \"max_pool\"\nsize = 1") + head, 3, "size is 1", "from 2 to 32");
  expect_error(layer("type = \"dense\"\nout_features = 65536") +
                   layer("type = \"dense\"\nout_features = 65536") + head,
               0, "4497080330", "narrower: 1073741824 at most");
  expect_error("classes = 9\n" + head, 1, "classes is 9", "from 10 to 1000");
  std::string many;
  for (int i = 0; i < 1001; ++i) many += head;
  expect_error(many, 1, "has 1001 layers", "1 to 1000");
}

TEST_F(ModelFile, ShapesMustFit) {
  const std::string narrow = layer("type = \"convolution\"\nout_channels = 8\nkernel = 30");
  expect_error(narrow + layer("type = \"convolution\"\nname = \"next\"\nout_channels = 8\nkernel = 5") + head,
               5, "it reads 8 x 3 x 3", "give padding");
  expect_error(narrow + layer("type = \"max_pool\"\nsize = 4") + head, 5, "window larger", "size smaller");
  expect_error(narrow + layer("type = \"convolution\"\nname = \"next\"\nout_channels = 9") +
                   layer("type = \"add\"\ninputs = [\"conv1\", \"next\"]") + head,
               9, "8 x 3 x 3 and 9 x 1 x 1", "read another layer");
  expect_error(layer("type = \"dense\"\nout_features = 20"), 3, "not 10 values wide", "out_features = 10");
  const std::string dense = layer("type = \"dense\"\nout_features = 8");
  expect_error(
      dense + layer("type = \"relu\"") + layer("type = \"convolution\"\nout_channels = 8\nkernel = 1") + head,
      7, "reads what a dense layer gives", "dense layers last");
  expect_error(layer("type = \"convolution\"\nout_channels = 8\nkernel = 32") +
                   layer("type = \"dense\"\nname = \"d\"\nout_features = 8\ninputs = [\"image\"]") +
                   layer("type = \"add\"\ninputs = [\"conv1\", \"d\"]") + head,
               11, "adds a dense layer", "layers of their own");
  expect_error(head + layer("type = \"relu\""), 5, "is the last layer", "type = \"dense\"");
  expect_error(layer("type = \"relu\"") + head, 2, "reads the image", "put one of them before");
}

TEST_F(ModelFile, NamesMustBeThereOnceAndEarlier) {
  const std::string first = layer("type = \"dense\"\nname = \"first\"\nout_features = 20");
  const auto reads = [](const std::string& inputs) {
    return layer("type = \"dense\"\nname = \"last\"\nout_features = 10\ninputs = " + inputs);
  };
  expect_error(first + reads("[\"frist\"]"), 9, "reads 'frist'", "did you mean 'first'?");
  expect_error(first + reads("[\"last\"]"), 9, "does not come before", "move that one up");
  expect_error(first + reads("[]"), 9, "has 0 inputs", "take one");
  expect_error(first + reads("[\"first\", \"first\"]"), 9, "has 2 inputs", "take one");
  expect_error(first + reads("[\"image\"]"), 1, "layer first: is read by nobody", "leave it out");
  expect_error(first + first + head, 7, "second one named first", "of its own");
  expect_error(layer("type = \"dense\"\nname = \"image\"\nout_features = 10"), 3, "cannot be named 'image'",
               "not \"image\"");
  expect_error(layer("type = \"dense\"\nname = \"a\\nb\"\nout_features = 10"), 3, "cannot be named 'a?b'",
               "letters");
  expect_error(first + layer("type = \"add\"") + head, 5, "has no inputs", "add inputs");
  expect_error(first + layer("type = \"add\"\ninputs = [\"first\"]") + head, 7, "has 1 inputs", "takes two");
}

}  // namespace
