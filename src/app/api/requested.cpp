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

/// A zero byte ends a text for the system, which would take another path than the one that was
/// named. No command line can hold one.
void require_whole(const std::string& name, const std::string& text) {
    if (text.find('\0') != std::string::npos) {
        refuse(name + " holds a zero byte: " + printable(text), "leave it out");
    }
}

void require_whole(const Arguments& given) {
    for (const auto& [name, text] : given.values) {
        require_whole(name, text);
    }
    for (const std::string& checkpoint : given.checkpoints) {
        require_whole("a checkpoint", checkpoint);
    }
}

const CommandRow& row_of(Command command) {
    return *std::ranges::find(command_rows(), command, &CommandRow::command);
}

/// `has_members`: of a MergeRequest, which has the usual options as members; each of its options is
/// one of a merge, whatever the command.
void add_others(Command command, const OptionTexts& others, bool has_members, Arguments& given) {
    for (const auto& [name, text] : others) {
        const OptionRow* const row = find_option(name);
        const bool is_taken = row != nullptr && row->touches != Touches::loudness &&
                              row->is_taken_by(has_members ? Command::merge : command) &&
                              !(has_members && std::ranges::count(kNotTaken, row->name) > 0);
        if (!is_taken) {
            const std::string taker(row_of(has_members ? Command::merge : command).name);
            refuse("a request of " + taker + " takes no option " + printable(name),
                   "see `shardweld help " + taker + "`, and the request's other members");
        }
        if (row->is_flag() && text != "true") {
            refuse("the option " + name + " is \"true\" or not given, not " + printable(text),
                   "leave it out, or give \"true\"");
        }
        if (text.empty()) {
            refuse("the option " + name + " has no value", "leave it out, or give one");
        }
        if (!row->is_taken_by(command)) {
            continue;  // of a merge that is only planned or compared
        }
        if (!given.values.emplace(row->name, text).second) {
            refuse("the option " + name + " is a member of the request", "give it there");
        }
    }
}

std::string list_of(const std::vector<double>& numbers) {
    return joined(numbers, ",", [](double one) {
        std::array<char, 32> text{};
        return std::string(text.data(),
                           std::to_chars(text.data(), text.data() + text.size(), one).ptr);
    });
}

OutputRequest also_of(const OutputSpec& output) {
    require_whole("an output", output.directory.string());
    OutputRequest also{output.directory, {}, {}};
    if (!output.quantize.empty()) {
        also.quantise = encoding_in({"quantize", output.quantize});
    }
    if (!output.dtype.empty()) {
        also.dtype = dtype_in({"dtype", output.dtype});
    }
    also.form = form_in(output.to);
    return also;
}

}  // namespace

Options options_of(const MergeRequest& request, Command command, OptionTexts own) {
    if (request.checkpoints.empty()) {
        refuse("no checkpoint is given", "put a directory into MergeRequest::checkpoints");
    }
    const bool writes = command == Command::merge;
    if (writes && request.outputs.empty()) {
        refuse("no output is given", "put a directory into MergeRequest::outputs");
    }
    Options options;
    options.command = command;
    options.stop = request.stop;
    options.stall_timeout = 0;
    Arguments given;
    given.values.insert(own.begin(), own.end());
    const auto put = [&](std::string_view name, const std::string& text) {
        if (!text.empty()) {
            given.values.emplace(name, text);
        }
    };
    put("local_dir", request.checkpoints.front());
    put("hf_config", request.model_dir);
    for (const OutputSpec& output : request.outputs) {
        if (writes && output.directory.empty()) {
            refuse("an output has no directory", "give each of MergeRequest::outputs one");
        }
        if (&output == &request.outputs.front()) {
            put("target_dir", command == Command::test ? "" : output.directory.string());
            put("dtype", output.dtype);
            put("quantize", output.quantize);
            put("to", output.to);
        } else {
            options.also.push_back(also_of(output));
        }
    }
    if (writes) {
        put("report", request.report);
        put("overwrite", request.overwrite ? "true" : "");
    }
    put("average_weights", list_of(request.average_weights));
    if (request.checkpoints.size() > 1) {
        put("average", request.options.contains("delta") ? "" : "true");
        options.averaging.others.assign(request.checkpoints.begin() + 1, request.checkpoints.end());
        given.checkpoints.assign(request.checkpoints.begin() + 1, request.checkpoints.end());
    }
    add_others(command, request.options, true, given);
    require_whole(given);
    return settled(std::move(options), row_of(command), given);
}

Options options_of(Command command, const OptionTexts& own, const OptionTexts& others) {
    Options options;
    options.command = command;
    options.stall_timeout = 0;
    Arguments given;
    for (const auto& [name, text] : own) {
        if (!text.empty()) {
            given.values.emplace(name, text);
        }
    }
    add_others(command, others, false, given);
    require_whole(given);
    return settled(std::move(options), row_of(command), given);
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
