#include "shardweld/publish/run_facts.hpp"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"

#include "appear.hpp"
#include "places.hpp"

namespace shardweld::publish {

namespace {

using nlohmann::json;

constexpr int kSchema = 1;
constexpr Bytes kLongestHeader = Bytes{1} << 30U;

// get() takes fractions too, and what does not fit is undefined: get_ref() refuses them.
Bytes bytes_in(const json& value) {
    return value.get_ref<const json::number_unsigned_t&>();
}

outputs::RawOffsets raw_in(const json& entry) {
    outputs::RawOffsets raw;
    for (const json& offset : entry.at("tensors").get_ref<const json::array_t&>()) {
        raw.tensors.push_back(bytes_in(offset));
    }
    raw.header = bytes_in(entry.at("header"));
    raw.file_size = bytes_in(entry.at("size"));
    return raw;
}

RunFacts facts_in(const json& root) {
    RunFacts facts;
    facts.tool = root.at("tool").get<std::string>();
    facts.plan = root.at("plan").get<std::string>();
    facts.replicas = root.at("replicas").get<std::string>();
    facts.options = root.at("options").get<std::vector<std::string>>();
    for (const json& entry : root.at("inputs")) {
        facts.inputs.push_back({entry.at(0).get<std::string>(), bytes_in(entry.at(1)),
                                entry.at(2).get_ref<const json::number_integer_t&>()});
    }
    for (const json& entry : root.at("raw")) {
        facts.raw.push_back(raw_in(entry));
    }
    return facts;
}

[[noreturn]] void refuse(ErrorCode code, const std::string& why, const fs::path& where) {
    throw Error(code, "cannot resume: " + why + "; run without --resume to start anew, or remove " +
                          where.string());
}

/// The first file that is not what it was; "" if there is none.
std::string change_of(const std::vector<InputFact>& begun, const std::vector<InputFact>& now) {
    std::map<std::string, InputFact> before;
    for (const InputFact& input : begun) {
        before[input.name] = input;
    }
    const auto say = [](const InputFact& input, const std::string& what) {
        return "the input " + printable(input.name) + " " + what + " since this merge began";
    };
    for (const InputFact& input : now) {
        const auto at = before.find(input.name);
        if (at == before.end()) {
            return say(input, "is new");
        }
        if (input.size != at->second.size) {
            return say(input, "went from " + std::to_string(at->second.size) + " to " +
                                  std::to_string(input.size) + " bytes");
        }
        if (input.mtime_ns != at->second.mtime_ns) {
            return say(input, "was written again");
        }
        before.erase(at);
    }
    return before.empty() ? "" : say(before.begin()->second, "is gone");
}

/// What only one of the sorted lists has.
std::string only_in(std::vector<std::string> some, std::vector<std::string> others) {
    std::sort(some.begin(), some.end());
    std::sort(others.begin(), others.end());
    std::vector<std::string> only;
    std::set_difference(some.begin(), some.end(), others.begin(), others.end(),
                        std::back_inserter(only));
    std::string text;
    for (const std::string& option : only) {
        text += (text.empty() ? "" : ", ") + printable(option);
    }
    return text.empty() ? "none" : text;
}

}  // namespace

void write_header(const RunFacts& facts, const fs::path& journal, bool sync) {
    json inputs = json::array();
    for (const InputFact& input : facts.inputs) {
        inputs.push_back({input.name, input.size, input.mtime_ns});
    }
    json raw = json::array();
    for (const outputs::RawOffsets& file : facts.raw) {
        raw.push_back(
            {{"tensors", file.tensors}, {"header", file.header}, {"size", file.file_size}});
    }
    const json root = {{"schema", kSchema},        {"tool", facts.tool},
                       {"plan", facts.plan},       {"replicas", facts.replicas},
                       {"options", facts.options}, {"inputs", std::move(inputs)},
                       {"raw", std::move(raw)}};
    std::error_code failed;
    fs::create_directory(journal, failed);
    if (failed) {
        io::throw_errno(failed.value(), "create directory", journal);
    }
    const fs::path path = journal / kJournalHeader;
    const fs::path fresh = journal / "header.new";
    io::write_text(fresh, root.dump(1, ' ', false, json::error_handler_t::replace), sync);
    Renames().rename(fresh, path);
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
    const json root = json::parse(text, nullptr, false);
    if (root.is_discarded()) {
        refuse_header("is damaged: it is no JSON");
    }
    try {
        if (root.at("schema") != kSchema) {
            refuse_header("is of another version of shardweld");
        }
        return facts_in(root);
    } catch (const json::exception& error) {
        refuse_header("is damaged: " + printable(error.what()));
    }
    return {};
}

void require_same(const RunFacts& begun, const RunFacts& now, const fs::path& where) {
    if (begun.tool != now.tool) {
        refuse(ErrorCode::target,
               "shardweld " + printable(begun.tool) + " began, this is " + now.tool, where);
    }
    if (const std::string change = change_of(begun.inputs, now.inputs); !change.empty()) {
        refuse(ErrorCode::mismatch, change, where);
    }
    if (begun.plan != now.plan) {
        const std::string before = only_in(begun.options, now.options);
        const std::string after = only_in(now.options, begun.options);
        refuse(ErrorCode::mismatch,
               before == after ? "config.json, a recipe or the base model is another one than when "
                                 "this merge began"
                               : "options changed: " + before + " became " + after,
               where);
    }
    // What was compared less strictly is not compared again.
    if (begun.replicas != now.replicas && now.replicas != "trust") {
        refuse(ErrorCode::mismatch,
               "it began with --replicas " + printable(begun.replicas) + ", this is --replicas " +
                   now.replicas,
               where);
    }
}

}  // namespace shardweld::publish
