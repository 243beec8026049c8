#include "requested.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <iterator>

#include "app/settings/option_table.hpp"
#include "app/settings/option_value.hpp"
#include "app/settings/options.hpp"
#include "app/settings/settle.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Members of requests have their own place, and the others are the command line's.
constexpr std::array kNotTaken{
    "local_dir", "hf_config", "hf_model_path",   "target_dir", "dtype",   "quantize",
    "also",      "average",   "average_weights", "overwrite",  "report",  "progress",
    "log_dir",   "hf_cli",    "hf_upload_path",  "private",    "revision"};

const std::string& whole(const std::string& text, const std::string& name) {
    if (text.find('\0') != std::string::npos) {
        refuse(name + " holds a zero byte: " + printable(text), "leave it out");
    }
    return text;
}

/// The request's own options, which are texts. `is_merge`: of a MergeRequest, which has the usual
/// options as members; each of its options is one of a merge, whatever the command.
void put_others(const std::map<std::string, std::string>& others, bool is_merge, Options& options) {
    const CommandRow& taker = row_for(is_merge ? Command::merge : options.command);
    GivenTexts given;
    for (const auto& [name, text] : others) {
        const OptionRow* const row = find_option(name);
        if (row == nullptr || row->touches == Touches::loudness ||
            !row->is_taken_by(taker.command) ||
            (is_merge && std::ranges::count(kNotTaken, row->name) > 0)) {
            const std::string command(taker.name);
            refuse("a request of " + command + " takes no option " + printable(name),
                   "see `shardweld help " + command + "`, and the request's other members");
        }
        if (row->is_flag() && text != "true") {
            refuse("the option " + name + " is \"true\" or not given, not " + printable(text),
                   "leave it out, or give \"true\"");
        }
        if (text.empty()) {
            refuse("the option " + name + " has no value", "leave it out, or give one");
        }
        if (!row->is_taken_by(options.command)) {
            continue;  // of a merge that is only planned or compared
        }
        if (options.has(name)) {
            refuse("the option " + name + " is a member of the request", "give it there");
        }
        given.emplace(name, whole(text, name));
    }
    put_values(given, options);
    options.given.merge(given);
}

/// A number in the fewest digits that mean it.
std::string exact_text(double number) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

void put_output(const OutputSpec& spec, Options& options) {
    put_value(options, "dtype", spec.dtype);
    put_value(options, "quantize", spec.quantize);
    put_value(options, "to", spec.to);
    if (options.command != Command::test) {
        put_value(options, "target_dir", spec.directory.string());
    }
}

void put_outputs(const MergeRequest& request, Options& options) {
    const bool writes = options.command == Command::merge;
    for (const OutputSpec& spec : request.outputs) {
        if (writes && spec.directory.empty()) {
            refuse("an output has no directory", "give each of MergeRequest::outputs one");
        }
        if (&spec == &request.outputs.front()) {
            put_output(spec, options);
            continue;
        }
        Options also;
        put_output(spec, also);
        also.output.directory = spec.directory;
        options.also.push_back(also.output);
        options.given["also"] += joined(also.given, ",", [](auto& one) { return one.second; });
    }
    if (writes) {
        put_value(options, "report", request.report.string());
        put_value(options, "overwrite", request.overwrite ? "true" : "");
    }
}

void put_checkpoints(const MergeRequest& request, Options& options) {
    put_value(options, "local_dir", request.checkpoints.front().string());
    for (std::size_t i = 1; i < request.checkpoints.size(); ++i) {
        options.averaging.others.emplace_back(
            whole(request.checkpoints[i].string(), "a checkpoint"));
    }
    if (request.checkpoints.size() > 1 && !request.options.contains("delta")) {
        options.averaging.is_average = true;
        options.given.emplace("average", "true");
    }
    if (!request.average_weights.empty()) {
        options.averaging.weights = request.average_weights;
        options.given.emplace("average_weights", joined(request.average_weights, ",", exact_text));
    }
}

Options plain_options(Command command, const std::function<void(Options&)>& set) {
    Options options;
    options.command = command;
    options.stall_timeout = 0;
    if (set) {
        set(options);
    }
    return options;
}

}  // namespace

void put_value(Options& options, const char* option, const std::string& text) {
    if (!text.empty()) {
        GivenTexts one{{option, whole(text, option)}};
        put_values(one, options);
        options.given.merge(one);
    }
}

Options options_of(const MergeRequest& request, Command command,
                   const std::function<void(Options&)>& set) {
    if (request.checkpoints.empty()) {
        refuse("no checkpoint is given", "put a directory into MergeRequest::checkpoints");
    }
    if (command == Command::merge && request.outputs.empty()) {
        refuse("no output is given", "put a directory into MergeRequest::outputs");
    }
    Options options = plain_options(command, set);
    options.stop = request.stop;
    put_checkpoints(request, options);
    put_value(options, "hf_config", request.model_dir.string());
    put_outputs(request, options);
    put_others(request.options, true, options);
    return settled(std::move(options), row_for(command));
}

Options options_of(const ExamineRequest& request, Command command,
                   const std::function<void(Options&)>& set) {
    Options options = plain_options(command, set);
    put_value(options, "local_dir", request.directory.string());
    put_others(request.options, false, options);
    return settled(std::move(options), row_for(command));
}

Options agreed_options(mpi::Comm& ranks, const std::function<Options()>& read) {
    Options options = mpi::collectively_get(ranks, read);
    require_same_options(ranks, options.shared);
    return options;
}

void run_or_abort(mpi::Comm& ranks, const std::function<void()>& run) {
    try {
        run();
    } catch (const Error&) {
        throw;
    } catch (const std::exception&) {
        const Error own = mpi::error_of([] { throw; }).value();
        if (ranks.size() > 1) {
            ranks.abort(static_cast<int>(own.code()));
        }
        throw own;
    }
}

}  // namespace shardweld::app
