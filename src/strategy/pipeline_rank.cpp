#include "strategy/pipeline_rank.hpp"

#include <map>

#include "backend/layout_hash.hpp"
#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "kernels/elementwise.hpp"
#include "strategy/pipeline_plan.hpp"
#include "strategy/pipeline_schedule.hpp"
#include "strategy/update.hpp"

namespace dtrain::strategy {
namespace {

using config::Phase;

class PipelineRank final : public RankStrategy {
 public:
  explicit PipelineRank(const RankContext& context)
      : context_(context),
        shape_(pipeline_shape(*context.options, context.replicas)),
        stage_(shape_.stage_of(context.rank)),
        schedule_(&pipeline_schedules().at(context.options->pipeline_schedule).value) {
    const Assignment& assignment = *context_.assignment;
    if (shape_.pipelines > 1) {
      copies_ = context_.communicator->split(stage_, deadline());
      if (context_.shared && assignment.part) require_same_layout(*assignment.part->model);
    }
    if (is_first()) return;
    image_floats_ = assignment.part->model->image.elements();
    for (int slot = 0; slot < assignment.slots; ++slot) {
      received_.emplace_back(image_floats_ * static_cast<std::size_t>(assignment.max_batch));
    }
  }

  void before_step() override {
    tickets_.clear();
    received_finite_ = true;
  }

  bool computes() const override { return true; }
  bool arrives() const override { return shape_.pipelines > 1; }
  bool only_enqueues() const override { return false; }

  void compute(const backend::MicroStep& micro, backend::GradientSink& sink) override {
    if (micro.batch.count == 0) return skip(micro, sink);
    const Way& way = way_of(micro.batch.count);
    for (const StageTask& task : way.tasks) {
      const auto i = static_cast<std::size_t>(task.micro_batch);
      const int slot = task.micro_batch % context_.assignment->slots;
      if (task.kind == StageTask::Kind::forward) {
        go_forward(slot, part_of(micro.batch, way.first[i], way.images[i], slot));
      } else {
        const bool last = i + 1 == way.images.size();
        go_backward(slot, micro.gradient_scale, micro.first && i == 0, micro.last && last, sink);
      }
    }
  }

  backend::BatchResult result() const override {
    backend::BatchResult sum;
    for (int slot = 0; slot < context_.assignment->slots; ++slot) {
      const backend::BatchResult part = context_.replica->result(slot);
      sum.loss_sum += part.loss_sum;
      sum.correct += part.correct;
      sum.count += part.count;
    }
    return sum;
  }

  backend::BatchResult evaluate(const backend::Batch& batch) override {
    if (batch.count == 0) return {};
    const backend::BatchResult result = context_.replica->evaluate(part_of(batch, 0, batch.count, 0));
    if (!is_last()) send(context_.replica->output(0), stage_ + 1);
    return result;
  }

  void bucket_ready(int bucket, backend::DeviceToken ready) override {
    if (!copies_) return;
    const backend::Range range = context_.replica->buckets()[static_cast<std::size_t>(bucket)];
    const auto gradients = context_.replica->gradients().subspan(range.offset, range.size);
    tickets_.push_back(copies_->all_reduce(gradients, ready));
    copies_->progress();
  }

  void synchronize() override {
    for (const comm::Ticket ticket : tickets_) copies_->wait(ticket, deadline());
    if (context_.loss_scaling) agree();
  }

  void apply(const kernels::OptimizerStep& step) override {
    if (all_finite_) update_all(context_, step);
  }

  // Whose value it was that was not finite: what is received only passes it on.
  std::optional<backend::StepOutcome> outcome() const override {
    backend::StepOutcome outcome = context_.replica->outcome();
    outcome.own_finite = outcome.own_finite || !received_finite_;
    outcome.applied = outcome.applied && all_finite_;
    return outcome;
  }

  std::uint64_t bytes_sent() const override { return copies_ ? copies_->bytes_sent() : 0; }

 private:
  // How so many images are taken through the stage.
  struct Way {
    std::vector<int> images;  // by micro-batch
    std::vector<int> first;   // of them in the batch
    std::vector<StageTask> tasks;
  };

  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ == shape_.stages - 1; }
  Deadline deadline() const { return Deadline::in(context_.timeout); }
  int neighbour(int stage) const { return context_.rank - stage_ + stage; }

  void enter(Phase phase) {
    if (context_.clock != nullptr) context_.clock->enter(phase);
  }

  const Way& way_of(int images) {
    auto [entry, added] = ways_.try_emplace(images);
    Way& way = entry->second;
    if (!added) return way;
    way.images = micro_batch_images(images, shape_.micro_batches);
    int first = 0;
    for (const int count : way.images) {
      way.first.push_back(first);
      first += count;
    }
    way.tasks = schedule_->tasks(stage_, shape_.stages, static_cast<int>(way.images.size()));
    return way;
  }

  void send(std::span<const float> data, int stage) {
    const Communicating communicating(context_.clock);
    context_.communicator->send(data, neighbour(stage), deadline());
  }

  void receive(std::span<float> data, int stage) {
    const Communicating communicating(context_.clock);
    context_.communicator->receive(data, neighbour(stage), deadline());
  }

  // What the stage computes with: images of the batch, or what the stage before made of them.
  backend::Batch part_of(const backend::Batch& batch, int first, int count, int slot) {
    backend::Batch part;
    part.count = count;
    if (batch.labels != nullptr) part.labels = batch.labels + first;
    if (is_first()) {
      part.images = batch.images + static_cast<std::size_t>(first) * datasets::pixels_per_image;
      return part;
    }
    AlignedBuffer<float>& buffer = received_[static_cast<std::size_t>(slot)];
    const std::span<float> images = buffer.span().first(image_floats_ * static_cast<std::size_t>(count));
    receive(images, stage_ - 1);
    part.images = images.data();
    return part;
  }

  void go_forward(int slot, const backend::Batch& batch) {
    enter(Phase::forward);
    context_.replica->forward(slot, batch);
    if (!is_last()) send(context_.replica->output(slot), stage_ + 1);
  }

  void go_backward(int slot, float scale, bool first, bool last, backend::GradientSink& sink) {
    enter(Phase::backward);
    if (!is_last()) {
      const std::span<float> gradient = context_.replica->output_gradient(slot);
      receive(gradient, stage_ + 1);
      received_finite_ = received_finite_ && kernels::all_finite(gradient);
    }
    context_.replica->backward(slot, scale, first, last, sink);
    if (!is_first()) send(context_.replica->input_gradient(slot), stage_ - 1);
  }

  // No image of a short step fell to this pipeline.
  void skip(const backend::MicroStep& micro, backend::GradientSink& sink) {
    enter(Phase::backward);
    if (!micro.last) return;
    if (micro.first) context_.replica->clear_gradients();
    const int buckets = static_cast<int>(context_.replica->buckets().size());
    for (int bucket = 0; bucket < buckets; ++bucket) sink.bucket_ready(bucket, {});
  }

  // A stage sees its own gradients alone, and all are to take the step or none.
  void agree() {
    const double own = kernels::all_finite(context_.replica->gradients()) ? 1.0 : 0.0;
    all_finite_ = true;
    for (const double each : context_.communicator->all_gather_values({&own, 1}, deadline())) {
      all_finite_ = all_finite_ && each != 0.0;
    }
  }

  void require_same_layout(const model::Model& model) {
    const std::uint64_t hash = backend::layout_hash(*context_.replica, model.parameter_count);
    const double halves[] = {static_cast<double>(hash >> 32U), static_cast<double>(hash & 0xFFFF'FFFFU)};
    const std::vector<double> all = copies_->all_gather_values(halves, deadline());
    const auto& workers = static_cast<const PipelineWorkers&>(*context_.shared).by_rank;
    for (std::size_t pipeline = 1; 2 * pipeline < all.size(); ++pipeline) {
      if (all[2 * pipeline] == all[0] && all[2 * pipeline + 1] == all[1]) continue;
      const auto rank = pipeline * static_cast<std::size_t>(shape_.stages) + static_cast<std::size_t>(stage_);
      throw environment_error(
          fmt::format("{} keeps the weights of stage {} in another order than {}, so that their gradients "
                      "cannot be added",
                      workers[rank], stage_, workers[static_cast<std::size_t>(stage_)]),
          "their processors have different vector instructions: use machines of one kind");
    }
  }

  RankContext context_;
  PipelineShape shape_;
  int stage_;
  const PipelineSchedule* schedule_;
  std::unique_ptr<comm::Communicator> copies_;  // the same stage of all pipelines; null: there is one
  std::size_t image_floats_ = 0;                // of what is received
  std::vector<AlignedBuffer<float>> received_;  // by slot
  std::map<int, Way> ways_;                     // by images
  std::vector<comm::Ticket> tickets_;
  bool received_finite_ = true;
  bool all_finite_ = true;
};

}  // namespace

std::unique_ptr<RankStrategy> make_pipeline_rank(const RankContext& context) {
  return std::make_unique<PipelineRank>(context);
}

}  // namespace dtrain::strategy
