#include "requested.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "app/settings/nearest.hpp"
#include "app/settings/option_table.hpp"
#include "app/settings/option_value.hpp"
#include "app/settings/settle.hpp"
#include "core/error_of.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// The command line's own: where it is told what goes on, and what becomes of the output.
bool is_of_command_line(const OptionRow& row) {
    constexpr std::array kNames{"local_dir", "also", "log_dir", "done", "json"};
    return row.touches == Touches::loudness || row.group == "Upload" || contains(kNames, row.name);
}

/// A zero byte ends a text for the system, which would take another path than the one named.
void require_text(const std::string& name, const std::string& text) {
    if (text.empty()) {
        refuse("the option " + name + " has no value", "leave it out, or give one");
    }
    if (has_part(text, '\0')) {
        refuse(name + " holds a zero byte: " + printable(text), "leave it out");
    }
}

/// Whether an option may be named to `command`: what only looks at a merge is given all of it.
bool may_be_given(const OptionRow& row, Command command) {
    const bool is_of_merge = command == Command::plan || command == Command::test;
    return !is_of_command_line(row) &&
           (row.is_taken_by(command) || (is_of_merge && row.is_taken_by(Command::merge)) ||
            contains(row_for(command).others, row.name));
}

/// Those of the request's options that the job's command has a use for.
GivenTexts taken(const OptionTexts& options, Command command) {
    const CommandRow& taker = row_for(command);
    GivenTexts given;
    for (const auto& [name, text] : options) {
        const OptionRow* const row = find_option(name);
        if (row == nullptr || !may_be_given(*row, command)) {
            const std::string called(taker.name);
            std::vector<std::string> known;
            for (const OptionRow& one : option_rows()) {
                if (may_be_given(one, command)) {
                    known.emplace_back(one.name);
                }
            }
            const std::string meant = suggestion(name, known);
            refuse("a request of " + called + " takes no option " + printable(name),
                   meant.empty()
                       ? "see `shardweld help " + called + "`, and the request's other members"
                       : meant);
        }
        if (row->is_flag() && text != "true") {
            refuse("the option " + name + " is \"true\" or not given, not " + printable(text),
                   "leave it out, or give \"true\"");
        }
        require_text(name, text);
        if (row->is_taken_by(command) || contains(taker.others, name)) {
            given.emplace(name, text);
        }
    }
    return given;
}

/// Another output of the same read.
JobOutput beside(const OptionTexts& options, Command command) {
    for (const auto& [name, text] : options) {
        const OptionRow* const row = find_option(name);
        if (name != "target_dir" && (row == nullptr || row->touches != Touches::form)) {
            refuse("an output beside the first has no " + printable(name) + " of its own",
                   "give its target_dir, and dtype, quantize or to");
        }
    }
    Job job;
    job.outputs.front().directory.clear();
    put_values(taken(options, command), option_rows(), job);
    if (command == Command::merge && job.outputs.front().directory.empty()) {
        refuse("an output has no directory", "give each of Request::also its target_dir");
    }
    return job.outputs.front();
}

Job job_on_this_rank(const Request& request, Command command) {
    Job job;
    job.command = command;
    job.given = taken(request.options, command);
    if (request.inputs.empty()) {
        refuse("no checkpoint is given", "put a directory into Request::inputs");
    }
    if (command == Command::merge && !job.has("target_dir")) {
        refuse("no output is given", "name the directory to write: the option target_dir");
    }
    for (const fs::path& input : request.inputs) {
        require_text("a checkpoint", input.string());
        if (&input != &request.inputs.front()) {
            add_checkpoint(input, job);
        }
    }
    job.given.emplace("local_dir", request.inputs.front().string());
    if (request.inputs.size() > 1 && !job.has("task_arithmetic")) {
        job.given.emplace("average", "true");
    }
    job.outputs.front().keeps_report = request.keeps_report;
    job.run.stall_timeout = 0;
    job.run.stop = request.stop;
    put_values(job.given, option_rows(), job);
    for (const OptionTexts& also : request.also) {
        job.outputs.push_back(beside(also, command));
        job.given["also"] += joined(
            also, ",", [](auto& one) { return one.first == "target_dir" ? "" : one.second; });
    }
    return settled(std::move(job), row_for(command));
}

}  // namespace

Job job_of(mpi::Comm& ranks, const Request& request, Command command) {
    Job job = mpi::collectively_get(ranks, [&] { return job_on_this_rank(request, command); });
    require_same_options(ranks, job.shared);
    return job;
}

void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run) {
    try {
        run();
    } catch (const Error&) {
        throw;
    } catch (const std::exception&) {
        const Error own = error_of([] { throw; }).value();
        if (ranks.size() > 1) {
            ranks.abort(static_cast<int>(own.code()));
        }
        throw own;
    }
}

}  // namespace shardweld::app
