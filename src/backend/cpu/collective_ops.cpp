#include "backend/cpu/collective_ops.hpp"

#include <algorithm>
#include <numeric>

#include "backend/cpu/layouts.hpp"
#include "backend/cpu/weighted.hpp"
#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace dtrain::backend::cpu {

namespace {

using dnnl::memory;

constexpr std::size_t share_multiple = 16;  // floats

// What all ranks agree on, whatever layout their own channels have.
memory::desc gathered_desc(const Builder& builder, const Place& place) {
  const model::Shape& shape = place.layer->output;
  if (place.inputs[0]->desc.dims().size() == 2) {
    return {{builder.count, shape.channels}, memory::data_type::f32, memory::format_tag::nc};
  }
  if (builder.gives_logits(place.fused->inputs[0])) {
    return {{builder.count, shape.channels, shape.height, shape.width},
            memory::data_type::f32,
            memory::format_tag::nchw};
  }
  return convolution_input(*builder.engine, builder.count, shape);
}

// Where one rank's channels of every image lie, from rank to rank and within an image that has all of them.
struct Shares {
  std::vector<std::size_t> floats;  // of an image, by rank
  std::vector<std::size_t> before;  // of lower ranks, in an image
  std::size_t image = 0;            // of all ranks
  std::size_t padded = 0;           // what a rank gives for all images

  Shares(const std::vector<int>& channels, std::size_t pixels, std::size_t images) {
    for (const int each : channels) {
      before.push_back(image);
      floats.push_back(static_cast<std::size_t>(each) * pixels);
      image += floats.back();
    }
    const std::size_t most = *std::ranges::max_element(floats) * images;
    padded = (most + share_multiple - 1) / share_multiple * share_multiple;
  }
};

// Every rank gives its channels of all images, and has those of all. They go as they lie, where channels are
// in whole blocks and all ranks have them so, and else in canonical order.
class GatherChannelsOp final : public Op {
 public:
  GatherChannelsOp(const Builder& builder, const Place& place)
      : place_(place),
        team_(builder.team),
        link_(builder.link),
        images_(static_cast<std::size_t>(builder.count)),
        shares_(std::get<model::GatherChannels>(place.layer->operation).channels,
                static_cast<std::size_t>(place.layer->output.height) * place.layer->output.width, images_) {
    const auto& channels = std::get<model::GatherChannels>(place.layer->operation).channels;
    place.output->desc = gathered_desc(builder, place);
    in_order_ = goes_as_it_lies(channels);
    const int now = place.index;
    const int back = builder.moments - 1 - now;
    gathered_buffer_ = builder.buffer(channels.size() * shares_.padded * sizeof(float), now, now);
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0], back);
    if (in_order_) return;
    own_desc_ = canonical(place.inputs[0]->desc);
    all_desc_ = canonical(place.output->desc);
    all_buffer_ = builder.buffer(all_desc_.get_size(), now, now);
    all_gradient_buffer_ = builder.buffer(all_desc_.get_size(), back, back);
    own_gradient_buffer_ = builder.buffer(own_desc_.get_size(), back, back);
  }

  void bind(const Bindings& bindings) override {
    gathered_ = static_cast<float*>(bindings.at(gathered_buffer_));
    input_gradient_->bind(bindings);
    if (in_order_) return;
    own_ = {own_desc_, *bindings.engine, nullptr};
    all_ = bindings.memory(all_desc_, all_buffer_);
    all_gradient_ = bindings.memory(all_desc_, all_gradient_buffer_);
    own_gradient_ = bindings.memory(own_desc_, own_gradient_buffer_);
    give_ = dnnl::reorder(place_.inputs[0]->value_memory, own_);
    take_ = dnnl::reorder(all_, place_.output->value_memory);
    if (!input_gradient_->wanted()) return;
    take_gradient_ = dnnl::reorder(place_.output->gradient_memory, all_gradient_);
    give_gradient_ = dnnl::reorder(own_gradient_, input_gradient_->target());
  }

  void forward(const dnnl::stream& stream, bool) override {
    Collective& collective = link_->get();
    const auto ranks = static_cast<std::size_t>(collective.size());
    if (ranks != shares_.floats.size()) throw std::logic_error("a model split for another number of ranks");
    const auto rank = static_cast<std::size_t>(collective.rank());
    float* own = gathered_ + rank * shares_.padded;
    if (in_order_) {
      std::copy_n(place_.inputs[0]->values(), images_ * shares_.floats[rank], own);
    } else {
      own_.set_data_handle(own);
      reorder(stream, give_, place_.inputs[0]->value_memory, own_);
    }
    collective.all_gather({gathered_, ranks * shares_.padded});
    take_shares(in_order_ ? place_.output->values() : static_cast<float*>(all_.get_data_handle()));
    if (!in_order_) reorder(stream, take_, all_, place_.output->value_memory);
  }

  void backward_parameters(const dnnl::stream&, bool) override {}

  void backward_inputs(const dnnl::stream& stream) override {
    if (!input_gradient_->wanted()) return;
    const auto rank = static_cast<std::size_t>(link_->get().rank());
    if (in_order_) {
      take_own(rank, place_.output->gradients(), floats(input_gradient_->target()));
    } else {
      reorder(stream, take_gradient_, place_.output->gradient_memory, all_gradient_);
      take_own(rank, floats(all_gradient_), floats(own_gradient_));
      reorder(stream, give_gradient_, own_gradient_, input_gradient_->target());
    }
    input_gradient_->finish(*team_, false);
  }

 private:
  static float* floats(const memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

  static void reorder(dnnl::stream stream, const dnnl::primitive& primitive, const memory& from,
                      const memory& to) {
    primitive.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  static memory::desc canonical(const memory::desc& desc) {
    return {desc.dims(), memory::data_type::f32, memory::format_tag::nchw};
  }

  bool goes_as_it_lies(const std::vector<int>& channels) const {
    const memory::desc& from = place_.inputs[0]->desc;
    const memory::desc& to = place_.output->desc;
    if (from.dims().size() == 2) return true;
    const ActivationLayout mine = layout_of(from);
    if (layout_of(to).tag != mine.tag || mine.tag == memory::format_tag::nhwc) return false;
    return std::ranges::all_of(channels, [&](int each) { return each % mine.inner == 0; });
  }

  void take_shares(float* all) const {
    team_->split(images_, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t image = begin; image < end; ++image) {
        for (std::size_t rank = 0; rank < shares_.floats.size(); ++rank) {
          std::copy_n(gathered_ + rank * shares_.padded + image * shares_.floats[rank], shares_.floats[rank],
                      all + image * shares_.image + shares_.before[rank]);
        }
      }
    });
  }

  void take_own(std::size_t rank, const float* all, float* own) const {
    const std::size_t size = shares_.floats[rank];
    team_->split(images_, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t image = begin; image < end; ++image) {
        std::copy_n(all + image * shares_.image + shares_.before[rank], size, own + image * size);
      }
    });
  }

  Place place_;
  const Team* team_;
  const CollectiveLink* link_;
  std::size_t images_;
  Shares shares_;
  bool in_order_ = true;
  memory::desc own_desc_;
  memory::desc all_desc_;
  BufferId gathered_buffer_ = no_buffer;
  BufferId all_buffer_ = no_buffer;
  BufferId all_gradient_buffer_ = no_buffer;
  BufferId own_gradient_buffer_ = no_buffer;
  float* gathered_ = nullptr;  // one share after the other
  memory own_;                 // in it
  memory all_;
  memory all_gradient_;
  memory own_gradient_;
  dnnl::reorder give_;
  dnnl::reorder take_;
  dnnl::reorder take_gradient_;
  dnnl::reorder give_gradient_;
  std::optional<InputGradient> input_gradient_;
};

class SumGradientsOp final : public Op {
 public:
  SumGradientsOp(const Builder& builder, const Place& place)
      : place_(place), team_(builder.team), link_(builder.link), round_(builder.round_bf16) {
    place.output->desc = place.inputs[0]->desc;
    input_gradient_.emplace(builder, place.inputs[0], place.accumulates[0],
                            builder.moments - 1 - place.index);
  }
  void bind(const Bindings& bindings) override { input_gradient_->bind(bindings); }
  void forward(const dnnl::stream&, bool) override {}
  void backward_parameters(const dnnl::stream&, bool) override {}

  void backward_inputs(const dnnl::stream&) override {
    const std::span<float> sum(place_.output->gradients(), place_.output->floats());
    link_->get().all_reduce(sum);
    if (round_) round_values(*team_, sum.data(), sum.size());
    auto* target = static_cast<float*>(input_gradient_->target().get_data_handle());
    if (target == sum.data()) return;
    std::ranges::copy(sum, target);
    input_gradient_->finish(*team_, false);
  }

 private:
  Place place_;
  const Team* team_;
  const CollectiveLink* link_;
  bool round_;
  std::optional<InputGradient> input_gradient_;
};

}  // namespace

void CollectiveLink::connect(Collective& collective) {
  const auto ranks = static_cast<std::size_t>(collective.size());
  AlignedBuffer<float> instructions(ranks * share_multiple);
  const auto of_rank = [&](std::size_t rank) -> float& { return instructions.data()[rank * share_multiple]; };
  const auto own = static_cast<std::size_t>(collective.rank());
  of_rank(own) = static_cast<float>(dnnl::get_effective_cpu_isa());
  collective.all_gather(instructions.span());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (of_rank(rank) == of_rank(own)) continue;
    throw environment_error(
        fmt::format("rank {} computes with other vector instructions than rank {}, and keeps channels in "
                    "another order",
                    rank, own),
        "use machines of one kind");
  }
  collective_ = &collective;
}

Collective& CollectiveLink::get() const {
  if (collective_ == nullptr) throw std::logic_error("a collective layer that is not connected");
  return *collective_;
}

std::unique_ptr<Op> make_gather_channels(const Builder& builder, const Place& place) {
  return std::make_unique<GatherChannelsOp>(builder, place);
}

std::unique_ptr<Op> make_sum_gradients(const Builder& builder, const Place& place) {
  return std::make_unique<SumGradientsOp>(builder, place);
}

}  // namespace dtrain::backend::cpu
