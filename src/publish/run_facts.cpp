#include "run_facts.hpp"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/error_of.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

#include "renames.hpp"
#include "target.hpp"
#include "traces.hpp"

namespace shardweld::publish {

namespace {

using nlohmann::json;

constexpr int kSchema = 2;
constexpr const char* kStamps = "stamps.json";
constexpr Bytes kLongestHeader = Bytes{1} << 30U;

// get() takes fractions too, and what does not fit is undefined: get_ref() refuses them.
Bytes bytes_in(const json& value) {
    return value.get_ref<const json::number_unsigned_t&>();
}

/// [name, size, modified, changed, inode, digest, is_proved]
json json_of(const InputFact& input) {
    const io::FileStamp& stamp = input.stamp;
    return {input.name,  stamp.size,   stamp.modified_ns, stamp.changed_ns,
            stamp.inode, input.digest, input.is_proved};
}

/// Behind the name.
io::FileStamp stamp_in(const json& entry) {
    const auto time = [&](std::size_t at) {
        return entry.at(at).get_ref<const json::number_integer_t&>();
    };
    return {bytes_in(entry.at(1)), time(2), time(3), bytes_in(entry.at(4))};
}

InputFact input_in(const json& entry) {
    InputFact input;
    input.name = entry.at(0).get<std::string>();
    input.stamp = stamp_in(entry);
    input.digest = bytes_in(entry.at(5));
    input.is_proved = entry.at(6).get<bool>();
    return input;
}

RunFacts facts_in(const json& root) {
    RunFacts facts;
    facts.tool = root.at("tool").get<std::string>();
    facts.plan = root.at("plan").get<std::string>();
    facts.replicas = root.at("replicas").get<std::string>();
    facts.options = root.at("options").get<std::vector<std::string>>();
    for (const json& entry : root.at("inputs")) {
        facts.inputs.push_back(input_in(entry));
    }
    return facts;
}

[[noreturn]] void refuse(ErrorCode code, const std::string& why, const fs::path& where) {
    throw Error(code, "cannot continue the earlier merge: " + why,
                "start from the beginning with --restart, which removes " + where.string());
}

/// What became of an input, "" if nothing.
std::string change_of(const InputFact& then, const InputFact& now) {
    if (now.stamp.size != then.stamp.size) {
        return "went from " + std::to_string(then.stamp.size) + " to " +
               std::to_string(now.stamp.size) + " bytes";
    }
    if (now.stamp.modified_ns != then.stamp.modified_ns) {
        return "was written again";
    }
    if (now.digest != then.digest) {
        return "holds other tensors, or the same with other checksums, though its size and time "
               "are the same: it was replaced";
    }
    if (now.stamp != then.stamp && !now.is_proved) {
        return std::string("may have been replaced, though its size and time are the same (") +
               io::difference_of(then.stamp, now.stamp) + ", and it holds no checksums)";
    }
    return "";
}

/// The first file that is not what it was; "" if there is none.
std::string change_of(const std::vector<InputFact>& begun, const std::vector<InputFact>& now) {
    std::map<std::string, InputFact> before;
    for (const InputFact& input : begun) {
        before[input.name] = input;
    }
    const auto change_text = [](const InputFact& input, const std::string& what) {
        return "the input " + printable(input.name) + " " + what + " since this merge began";
    };
    for (const InputFact& input : now) {
        const auto at = before.find(input.name);
        if (at == before.end()) {
            return change_text(input, "is new");
        }
        if (const std::string change = change_of(at->second, input); !change.empty()) {
            return change_text(input, change);
        }
        before.erase(at);
    }
    return before.empty() ? "" : change_text(before.begin()->second, "is gone");
}

/// What only one of the sorted lists has.
std::string only_in(std::vector<std::string> some, std::vector<std::string> others) {
    std::ranges::sort(some);
    std::ranges::sort(others);
    std::vector<std::string> only;
    std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                        std::back_inserter(only));
    return joined(only, ", ", [](const std::string& option) { return printable(option); });
}

/// How the options differ that the output depends on; "" if they do not.
std::string change_of_options(const std::vector<std::string>& begun,
                              const std::vector<std::string>& now) {
    const std::string before = only_in(begun, now);
    const std::string after = only_in(now, begun);
    if (before.empty() && after.empty()) {
        return "";
    }
    return before.empty()  ? "it began without " + after
           : after.empty() ? "it began with " + before
                           : "it began with " + before + ", this is " + after;
}

void require_same_tool(const RunFacts& begun, const RunFacts& now, const fs::path& where) {
    if (begun.tool != now.tool) {
        refuse(ErrorCode::target,
               "shardweld " + printable(begun.tool) + " began, this is " + now.tool, where);
    }
}

/// Error(mismatch) where the run that began compared replicas less strictly: what it has written is
/// not compared again.
void require_as_strict(const RunFacts& begun, const RunFacts& now, const fs::path& where) {
    if (begun.replicas != now.replicas && now.replicas != "trust") {
        refuse(ErrorCode::mismatch,
               "it began with --replicas " + printable(begun.replicas) + ", this is --replicas " +
                   now.replicas,
               where);
    }
}

}  // namespace

void require_same_way(const fs::path& target, const RunFacts& now) {
    for (const fs::path& partial : unfinished_work(target)) {
        std::optional<RunFacts> begun;
        (void)error_of([&] {
            if (holds_work(partial)) {
                begun = read_header(partial / kJournal);
            }
        });
        if (begun) {
            require_same_tool(*begun, now, partial);
            require_as_strict(*begun, now, partial);
        }
    }
}

void write_header(const RunFacts& facts, const fs::path& journal, bool sync) {
    const json root = {{"schema", kSchema},        {"tool", facts.tool},
                       {"plan", facts.plan},       {"replicas", facts.replicas},
                       {"options", facts.options}, {"inputs", collect_list(facts.inputs, json_of)}};
    // Other ranks write into the journal as soon as it is there: it appears with its header.
    const NameInDirectory place{journal.parent_path(), journal.filename()};
    NameInDirectory made = place;
    Renames for_good;
    if (!io::is_directory(journal)) {
        made.name += ".new";
        for_good.make_directories(made);
    }
    const fs::path fresh = "header.new";
    io::write_text(made.path() / fresh, root.dump(1, ' ', false, json::error_handler_t::replace),
                   sync);
    for_good.rename({made.path(), fresh}, {made.path(), kJournalHeader});
    if (made.name != place.name) {
        for_good.rename(made, place);
    }
    if (sync) {
        io::sync_directory(journal);
        io::sync_directory(journal.parent_path());
    }
}

RunFacts read_header(const fs::path& journal) {
    const fs::path path = journal / kJournalHeader;
    const auto refuse_header = [&](const std::string& why) {
        refuse(ErrorCode::target, path.string() + " " + why, journal.parent_path());
    };
    std::string text;
    try {
        text = io::read_text(path, kLongestHeader);
    } catch (const Error& error) {
        refuse_header(std::string("cannot be read: ") + error.what());
    }
    const json root = parse_json<json>(text);
    if (root.is_discarded()) {
        refuse_header("is damaged: it is not JSON");
    }
    try {
        if (root.at("schema") != kSchema) {
            refuse_header("is of another version of shardweld");
        }
        return facts_in(root);
    } catch (const json::exception& error) {
        refuse_header("is damaged: " + printable(reason_in(error.what())));
    }
    return {};
}

void write_stamps(const OutputStamps& stamps, const fs::path& journal) {
    json files = json::array();
    for (const auto& [name, stamp] : stamps) {
        files.push_back({name, stamp.size, stamp.modified_ns, stamp.changed_ns, stamp.inode});
    }
    const json root = {{"files", std::move(files)}};
    io::write_text(journal / kStamps, root.dump(1, ' ', false, json::error_handler_t::replace),
                   true);
}

OutputStamps read_stamps(const fs::path& journal) {
    OutputStamps stamps;
    try {
        const json root = parse_json<json>(io::read_text(journal / kStamps, kLongestHeader));
        for (const json& entry : root.at("files")) {
            stamps[entry.at(0).get<std::string>()] = stamp_in(entry);
        }
    } catch (const Error&) {
        return {};
    } catch (const json::exception&) {
        return {};
    }
    return stamps;
}

void require_same(const RunFacts& begun, const RunFacts& now, const fs::path& where) {
    require_same_tool(begun, now, where);
    if (const std::string change = change_of(begun.inputs, now.inputs); !change.empty()) {
        refuse(ErrorCode::mismatch, change, where);
    }
    if (begun.plan != now.plan) {
        const std::string change = change_of_options(begun.options, now.options);
        refuse(ErrorCode::mismatch,
               change.empty()
                   ? "config.json, a recipe or the base model has changed since this merge began"
                   : change,
               where);
    }
    require_as_strict(begun, now, where);
}

}  // namespace shardweld::publish
