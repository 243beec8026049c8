#include "dropping.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "io/holes.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "traces.hpp"

namespace shardweld::publish {

namespace {

using nlohmann::json;

constexpr const char* kFreshNote = ".shardweld-dropping-new";
constexpr Bytes kLongestNote = Bytes{64} << 20U;

DroppingNote note_of(const json& root) {
    return {root.at("target").get<std::string>(), root.at("partial").get<std::string>(),
            root.at("number").get<std::string>(), root.at("is_published").get<bool>(),
            root.at("files").get<std::vector<std::string>>()};
}

bool is_found(const fs::path& path) {
    return io::kind_at(path) != io::FileKind::none;
}

bool tells_of_dropped(const fs::path& journal) {
    return io::is_directory(journal) &&
           std::ranges::any_of(io::entries_of(journal), [](const fs::directory_entry& entry) {
               return entry.path().extension() == io::kDroppedEnding && entry.file_size() > 0;
           });
}

/// Where the journal is while the partial directory beside a target gets the target's name.
fs::path journal_aside(const fs::path& partial) {
    const std::string name = partial.filename().string();
    const std::string_view trace = kPartialTrace;
    return name.size() > trace.size() && name.ends_with(trace)
               ? partial.parent_path() /
                     (name.substr(0, name.size() - trace.size()) + kJournalTrace)
               : fs::path();
}

}  // namespace

void write_note(const DroppingNote& note, const fs::path& checkpoint) {
    const json root = {
        {"about",
         "shardweld reshape --drop_consumed moves this checkpoint to `target`: parts "
         "of its files are gone and read as zeros"},
        {"target", note.target.string()},
        {"partial", note.partial.string()},
        {"number", note.number},
        {"is_published", note.is_published},
        {"files", note.files}};
    io::write_text(checkpoint / kFreshNote,
                   root.dump(1, ' ', false, json::error_handler_t::replace), true);
    fs::rename(checkpoint / kFreshNote, checkpoint / kDroppingNote);
    io::sync_directory(checkpoint);
}

std::optional<DroppingNote> note_in(const fs::path& checkpoint) {
    const fs::path path = checkpoint / kDroppingNote;
    if (!is_found(path)) {
        return std::nullopt;
    }
    const json root = parse_json<json>(io::read_text(path, kLongestNote));
    try {
        if (!root.is_discarded()) {
            return note_of(root);
        }
    } catch (const json::exception&) {
        // Said below.
    }
    throw Error(ErrorCode::corrupt,
                path.string() + " is damaged: it says where this checkpoint is being moved",
                "parts of the checkpoint may be gone: look for what it was moved to");
}

void remove_note(const fs::path& checkpoint) {
    fs::remove(checkpoint / kDroppingNote);
    io::sync_directory(checkpoint);
}

bool has_appeared(const DroppingNote& note) {
    return io::is_directory(note.target) &&
           (note.is_published || number_of(note.target) == note.number);
}

bool has_dropped(const fs::path& partial) {
    const fs::path aside = journal_aside(partial);
    return io::is_directory(partial) &&
           (tells_of_dropped(partial / kJournal) || (!aside.empty() && tells_of_dropped(aside)));
}

void require_nothing_dropped(const fs::path& partial, const std::string& what) {
    if (has_dropped(partial)) {
        throw Error(ErrorCode::target,
                    what + " would remove " + partial.string() +
                        ", which is all there is of what --drop_consumed has dropped",
                    "go on with the same command, without --restart");
    }
}

bool require_own_note(const fs::path& checkpoint, const fs::path& target) {
    const auto note = note_in(checkpoint);
    if (!note) {
        return false;
    }
    const fs::path path = checkpoint / kDroppingNote;
    if (target.empty() || note->target != target) {
        throw Error(ErrorCode::not_found,
                    "parts of " + checkpoint.string() + " may be gone: it is being moved to " +
                        note->target.string() + " (--drop_consumed)",
                    "end that first, with the same command; " + path.string() + " tells of it");
    }
    if (!is_found(note->partial)) {
        throw Error(ErrorCode::not_found,
                    "parts of " + checkpoint.string() + " may be gone, and so is " +
                        note->partial.string() + ", which they were moved to",
                    "restore one of them from a copy, and remove " + path.string() +
                        " if it is the checkpoint");
    }
    return has_dropped(note->partial);
}

}  // namespace shardweld::publish
