#include "shardweld/open.hpp"

#include <optional>
#include <string>
#include <utility>

#include "app/family/model_files.hpp"
#include "app/merge/unwritten.hpp"
#include "app/report/report_json.hpp"
#include "app/settings/option_value.hpp"
#include "core/text.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "requested.hpp"

namespace shardweld {

namespace {

using app::Output;

app::Job job_for(mpi::Comm& alone, const Request& request) {
    app::Job job = app::job_of(alone, request, app::Command::plan);
    if (!job.outputs.front().form.empty()) {
        app::refuse(
            "a checkpoint is read as the model that it holds, and `to` is for what is written",
            "leave it out");
    }
    job.run.plan.replicas = plan::Replicas::trust;  // only a merge reads them all
    return job;
}

/// Bytes that only a whole merge knows.
void require_readable(const plan::Plan& plan) {
    for (const plan::Target& target : plan.targets) {
        if (target.encode || target.n_outputs() > 1) {
            throw Error(ErrorCode::unsupported, "a model is not quantised while it is read",
                        "merge it with the encoding, and read the result")
                .add_context("tensor " + printable(target.name.text()));
        }
    }
}

TensorInfo info_of(const plan::Target& target) {
    return {target.name,
            safetensors_name(target.dtype),
            {target.shape.begin(), target.shape.end()},
            target.bytes()};
}

/// The box that ranges ask for; all of the tensor where there are none. Error(usage).
layout::Box box_of(const TensorInfo& tensor, std::span<const IndexRange> ranges) {
    const auto refuse = [&](const std::string& what) {
        throw Error(ErrorCode::usage, what, "see its shape")
            .add_context("tensor " + printable(tensor.name) + " " + shape_text(tensor.shape));
    };
    if (!ranges.empty() && ranges.size() != tensor.shape.size()) {
        refuse(std::to_string(ranges.size()) + " ranges are given for its dimensions");
    }
    layout::Box box;
    for (const std::size_t axis : indices(tensor.shape)) {
        const IndexRange range = ranges.empty() ? IndexRange{0, tensor.shape[axis]} : ranges[axis];
        if (range.begin < 0 || range.begin > range.end || range.end > tensor.shape[axis]) {
            refuse("indices " + std::to_string(range.begin) + " to " + std::to_string(range.end) +
                   " are outside dimension " + std::to_string(axis));
        }
        box.push_back({range.begin, range.end - range.begin});
    }
    return box;
}

Bytes bytes_of(const layout::Box& box, DType dtype) {
    Bytes bytes = size_of(dtype);
    for (const layout::Range& range : box) {
        bytes *= static_cast<Bytes>(range.extent);
    }
    return bytes;
}

}  // namespace

class OpenModel::State {
  public:
    State(const Request& request, Events& events) {
        auto alone = mpi::serial_comm();
        app::Job job = job_for(*alone, request);
        model_.emplace(std::move(alone), std::move(job), app::Log(events, true),
                       [](const Output& output) { require_readable(output.plan); });
        for (const outputs::PlacedFile& file : plan().placement.files) {
            for (const std::uint32_t target : file.tensors) {
                order_.push_back(target);
                tensors_.push_back(info_of(plan().targets[target]));
            }
        }
    }

    void read(std::size_t at, std::span<const IndexRange> ranges, ByteSpan out) {
        if (at >= tensors_.size()) {
            throw Error(ErrorCode::usage, "there is no tensor " + std::to_string(at),
                        "see tensors()");
        }
        const plan::Target& target = plan().targets[order_[at]];
        const layout::Box box = box_of(tensors_[at], ranges);
        if (bytes_of(box, target.dtype) != out.size()) {
            throw Error(ErrorCode::usage, std::to_string(out.size()) + " bytes are no place for " +
                                              std::to_string(bytes_of(box, target.dtype)))
                .add_context("tensor " + printable(target.name.text()));
        }
        if (out.empty()) {
            return;
        }
        try {
            model_->readers().read(order_[at], box, out);
        } catch (Error& error) {
            error.add_context("tensor " + printable(target.name.text()));
            throw;
        }
    }

    [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
    [[nodiscard]] const Output& output() const { return model_->output(); }
    [[nodiscard]] const app::RunReport& report() const { return *model_->run().report; }

  private:
    [[nodiscard]] const plan::Plan& plan() const { return model_->plan(); }

    std::optional<app::Unwritten> model_;
    std::vector<std::uint32_t> order_;  ///< of the plan's targets, as tensors_
    std::vector<TensorInfo> tensors_;
};

OpenModel::OpenModel(const Request& request, Events& events)
    : state_(std::make_unique<State>(request, events)) {}
OpenModel::~OpenModel() = default;
OpenModel::OpenModel(OpenModel&& other) noexcept = default;
OpenModel& OpenModel::operator=(OpenModel&& other) noexcept = default;

const std::vector<TensorInfo>& OpenModel::tensors() const {
    return state_->tensors();
}

std::string OpenModel::report_json() const {
    return app::to_json(state_->report(), state_->output().report);
}

std::string OpenModel::config_json() const {
    return state_->output().config_text;
}

void OpenModel::read(std::size_t at, std::span<const IndexRange> box, ByteSpan out) const {
    state_->read(at, box, out);
}

}  // namespace shardweld
