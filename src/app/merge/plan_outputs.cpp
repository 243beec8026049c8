#include "plan_outputs.hpp"

#include <string>
#include <utility>

#include "app/report/summary.hpp"
#include "core/text.hpp"
#include "plan/bind/trace.hpp"
#include "publish/config_edits.hpp"

#include "tied.hpp"

namespace shardweld::app {

namespace {

/// That the output is wider than config.json says, with its size in that type; "" if it is not.
std::string dtype_note(const Output& output) {
    const auto stated = publish::stated_dtype(output.model.config);
    const auto written = output.facts().dtype;
    if (!stated || !written || size_of(*written) <= size_of(*stated)) {
        return "";
    }
    const Bytes bytes = output.plan.placement.tensor_bytes;
    const Bytes ratio = size_of(*written) / size_of(*stated);
    return "config.json says " + torch_name(*stated) + ", the checkpoint holds " +
           torch_name(*written) + " (often a trainer's master weights): the output has " +
           human_bytes(bytes) + "; with --dtype " + torch_name(*stated) + " about " +
           human_bytes(bytes / ratio);
}

std::vector<std::string> whole_trace(std::vector<std::string> trace, const plan::Plan& plan,
                                     const std::vector<catalogue::File>& files,
                                     const std::string& name) {
    const auto written = plan::trace_target(plan, files, name);
    append_all(trace, written);
    if (trace.empty()) {
        trace.push_back("no tensor is called " + printable(name));
    }
    return trace;
}

/// Plans an output whose model is bound.
void plan_output(const Run& run, Merge& merge, Output& output, plan::JobPlan choice) {
    const std::vector<catalogue::File>& files = merge.input.files;
    HeldModel& model = output.model;
    if (model.output != nullptr) {
        choice.output_format = model.output.get();
    }
    const plan::Visibility visibility =
        merge.n_ranks > 0 ? plan::Visibility::everywhere(merge.n_ranks, files.size())
                          : merge.input.visibility;
    const auto plan = [&](plan::Targets targets, plan::Replicas replicas) {
        choice.replicas = replicas;
        return mpi::collectively_get(run.comm, [&] {
            return plan::make_plan(std::move(targets), files, visibility, choice);
        });
    };
    output.plan = plan(std::move(model.binding.targets), choice.replicas);
    if (!model.factors.empty()) {
        merge.factors = plan(std::move(model.factors), plan::Replicas::verify);
    }
    if (!model.normalised.empty()) {
        merge.norms = plan(std::move(model.normalised), plan::Replicas::trust);
    }
    if (model.quantisation && !model.quantisation->measured.empty()) {
        // Replicas are compared when the weights are written.
        output.measured = plan(std::move(model.quantisation->measured), plan::Replicas::trust);
    }
    const std::string& name = run.job.run.trace;
    if (!name.empty() && &output == &merge.first()) {
        merge.trace = whole_trace(std::move(model.trace), output.plan, files, name);
    }
    warn(run, output.report, sampling_warnings(output.plan));
}

/// config.json, true of what will be written.
void settle_config(const Run& run, Output& output) {
    if (output.model.training != nullptr) {
        output.config_text = output.model.config.text_to_write();  // of the model it holds
        return;
    }
    std::vector<std::string> notes;
    output.config_text =
        publish::true_config(output.model.config, output.facts(), notes).text_to_write();
    for (const std::string& note : notes) {
        if (output.model.has_model) {
            run.log.info("note: " + note);
        }
    }
}

/// Bypasses the log level: who asks for a trace wants it.
void tell_trace(const Run& run, const Merge& merge) {
    if (run.comm.rank() == 0) {
        for (const std::string& line : merge.trace) {
            run.log.trace(printable(line));
        }
    }
    run.watch->lap("plan");
}

void say_plan(const Run& run, const plan::Plan& plan) {
    run.log.debug("writing " + human_bytes(plan.placement.tensor_bytes) + ": " +
                  counted(plan.tensors.size(), "tensor") + " in " +
                  counted(plan.placement.files.size(), "file") + " by " +
                  counted(run.comm.size(), "rank") + ", " +
                  std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
}

}  // namespace

void plan_outputs(const Run& run, Merge& merge) {
    if (merge.hosts) {
        Input& input = merge.input;
        input.visibility.group_of_rank = merge.hosts->group_of_rank;
        input.home = merge.hosts->leaders[as_size(input.home)];
    }
    plan::JobPlan choice = merge.choice_for(run.job, merge.resources());
    for (Output& output : merge.outputs) {
        plan_output(run, merge, output, choice);
        settle_config(run, output);
        choice.replicas = plan::Replicas::trust;  // they are compared when the first is made
    }
    merge.input.memory.measure_plan();
    tell_trace(run, merge);
}

void plan_as_stored(const Run& run, Merge& merge, plan::Targets targets) {
    merge.here = shared_resources(run.comm);
    if (merge.input.is_checked) {
        merge.input.sums->use_records_of(targets);
    }
    merge.first().model.binding.targets = std::move(targets);
    plan_output(run, merge, merge.first(), merge.choice_for(run.job, merge.resources()));
    merge.input.memory.measure_plan();
}

void report_plans(const Run& run, Merge& merge) {
    const bool is_first = run.comm.rank() == 0;
    if (is_first) {
        describe_strategy(*run.report, merge.first().plan);
    }
    for (Output& one : merge.outputs) {
        one.report.format = one.plan.placement.format->name();
        one.report.model_class = one.model_class();
        one.report.size = size_of_model(one.plan.targets);
        if (is_first) {
            describe_plan(one.report, one.plan, merge.input.files, pointer_to(merge.factors));
        }
    }
}

void say_plans(const Run& run, const Merge& merge) {
    for (const Output& output : merge.outputs) {
        say_plan(run, output.plan);
    }
    const Output& first = merge.first();
    run.log.info(model_line(first.report.model_class, first.report.size));
    const bool is_told = run.log.is_speaker() && !first.asked().dtype;
    const std::string note = is_told ? dtype_note(first) : "";
    if (!note.empty()) {
        run.log.info("note: " + note);
    }
}

}  // namespace shardweld::app
