#include "verl_directories.hpp"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "core/names/names.hpp"
#include "core/text.hpp"
#include "formats/hf/hf.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kContentsFile = "ckpt_contents.json";
constexpr const char* kShards = "dist_ckpt";
constexpr Bytes kLargestContents = 1U << 20U;
// NeMo 2's checkpoint: the shards, and beside them what the run was made of.
constexpr const char* kNemoShards = "weights";
constexpr const char* kNemoContext = "context";
constexpr const char* kNemoTokenizer = "nemo_tokenizer";
// NeMo RL's step: policy/weights, policy/tokenizer, policy/optimizer.
constexpr const char* kPolicy = "policy";
constexpr const char* kPolicyTokenizer = "tokenizer";

using io::is_file;

/// Where ckpt_contents.json says that pieces lie, relative to its directory; "" where it has none.
struct CkptContents {
    std::string model;
    std::string adapters;      ///< Megatron's shards of an adapter, whose base is beside them
    std::string peft_adapter;  ///< the adapter as PEFT saves it
    std::string config;        ///< of config.json
};

/// A path of an entry that may be absent.
std::string path_in(const nlohmann::json& contents, const char* entry, const char* field,
                    const fs::path& file) {
    const auto at = contents.find(entry);
    if (at == contents.end() || at->is_null()) {
        return "";
    }
    const bool is_object = at->is_object();
    const auto path = is_object ? at->find(field) : at->end();
    const bool is_optional = is_object && path == at->end() && std::string_view(field) != "path";
    if (is_optional) {
        return "";
    }
    if (!is_object || path == at->end() || !path->is_string()) {
        throw Error(ErrorCode::corrupt,
                    file.string() + " gives no " + field + " for its entry " + entry);
    }
    if (!stays_below(path->get<std::string>())) {
        throw Error(ErrorCode::corrupt, file.string() + " gives the " + field + " of its entry " +
                                            entry + " as " + printable(path->get<std::string>()) +
                                            ", which leaves the checkpoint");
    }
    return path->get<std::string>();
}

CkptContents contents_of(const fs::path& file) {
    const auto root = parse_json<nlohmann::json>(io::read_text(file, kLargestContents));
    if (!root.is_object() || !root.contains("contents") || !root["contents"].is_object()) {
        throw Error(ErrorCode::corrupt, file.string() + " is not a JSON object with `contents`");
    }
    const auto& contents = root["contents"];
    return {path_in(contents, "model", "path", file),
            path_in(contents, "peft_adapters", "path", file),
            path_in(contents, "model", "peft_adapter_path", file),
            path_in(contents, "hf_config", "path", file)};
}

/// The shards that ckpt_contents.json lists: an adapter's before those of its base, which is a
/// finished model then.
fs::path listed_model(const fs::path& directory) {
    const fs::path file = directory / kContentsFile;
    const CkptContents contents = contents_of(file);
    const fs::path path = contents.adapters.empty() ? contents.model : contents.adapters;
    if (path.empty()) {
        throw Error(ErrorCode::not_found, file.string() + " lists no model", kWhereModel);
    }
    if (!io::is_directory(directory / path)) {
        throw Error(ErrorCode::not_found,
                    file.string() + " gives the " +
                        (contents.adapters.empty() ? "model" : "adapter") + "'s path as " +
                        printable(path.string()) + ", but there is no such directory",
                    "copy that directory too");
    }
    return (directory / path).lexically_normal();
}

/// A directory that may hold what belongs to the shards.
struct SearchDirectory {
    fs::path directory;
    bool is_given = true;  ///< the user named it, or one above it
};

/// Whether a save's files lie in the directory above this one, too. `below` is where the shards'
/// way comes from.
bool belongs_to_parent(const fs::path& directory, const fs::path& below) {
    const fs::path name = directory.filename();
    const fs::path above = directory.parent_path().filename();
    return name == kShards || (name == kNemoShards && above == kPolicy) ||
           has_tag_file(directory.parent_path()) ||
           (name == kNemoShards && io::is_directory(directory.parent_path() / kNemoContext)) ||
           (name == "model" &&
            (below.filename() == kShards || is_file(directory.parent_path() / kContentsFile)));
}

// The directory of the shards and those above it, nearest first: model/dist_ckpt lies two below the
// role's.
std::vector<SearchDirectory> surroundings(const fs::path& shards, const fs::path& given) {
    std::vector<SearchDirectory> found = {{shards}};
    fs::path below;
    for (fs::path at = shards; found.size() < 3; below = at, at = at.parent_path()) {
        const bool is_given = at != given && io::is_within(at, given);
        if (!is_given && !belongs_to_parent(at, below)) {
            break;
        }
        found.push_back({at.parent_path(), is_given});
    }
    return found;
}

std::optional<uid_t> owner_of(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        return status.st_uid;
    }
    if (!io::means_absent(errno)) {
        io::throw_errno(errno, "examine", path);
    }
    return std::nullopt;
}

/// Whether the file, by which `root` is known, is there and may be taken with the directory given;
/// notes what of it lies elsewhere.
bool may_take(const SearchDirectory& around, const fs::path& root, const fs::path& file,
              const fs::path& given, std::vector<std::string>& notes) {
    if (!is_file(file)) {
        return false;
    }
    if (around.is_given) {
        return true;
    }
    const uid_t giver = owner_of(given).value_or(::geteuid());
    for (const fs::path& path : {around.directory, root, file}) {
        const uid_t owner = owner_of(path).value_or(0);
        if (owner != 0 && owner != ::geteuid() && owner != giver) {
            notes.push_back(root.string() + " is not used: " + path.string() + " lies outside " +
                            given.string() + " and belongs to user " + std::to_string(owner));
            return false;
        }
    }
    notes.push_back("took " + root.string() + ", which lies beside " + given.string() +
                    " and belongs to it");
    return true;
}

/// As contents_of; nothing where the file cannot be read.
CkptContents adapter_contents(const fs::path& file) {
    try {
        return is_file(file) ? contents_of(file) : CkptContents();
    } catch (const Error&) {
        return {};  // who gave the directory above has been told
    }
}

/// What ckpt_contents.json lists beside an adapter's shards: its settings, config.json, its base.
void add_listed(const SearchDirectory& around, const fs::path& given, Location& location) {
    const fs::path file = around.directory / kContentsFile;
    const CkptContents contents = adapter_contents(file);
    if ((contents.adapters.empty() && contents.peft_adapter.empty()) ||
        !may_take(around, file, file, given, location.notes)) {
        return;
    }
    if (!contents.peft_adapter.empty()) {
        location.adapter_directory = around.directory / contents.peft_adapter;
    }
    for (const std::string& path : {contents.config, contents.model}) {
        if (!location.hf_directory && is_file(around.directory / path / "config.json")) {
            location.hf_directory = around.directory / path;
        }
    }
    const fs::path base = around.directory / contents.model;
    if (!contents.model.empty() && is_hf_model(try_list_directory(base))) {
        location.notes.push_back("the adapter's base lies beside it: --base " + base.string() +
                                 " writes it, too, or folds the adapter into it");
    }
}

/// The list of contents is written last: tells where it is missing.
void note_unfinished(Location& location) {
    const fs::path& shards = location.directory;
    const fs::path role = shards.parent_path().parent_path();
    if (shards.filename() == kShards && shards.parent_path().filename() == "model" &&
        !is_file(role / kContentsFile)) {
        location.notes.push_back((role / kContentsFile).string() +
                                 " is missing: it is written last, so the save may be incomplete");
    }
}

}  // namespace

void refuse_finished(const fs::path& directory) {
    const fs::path model = directory / "huggingface";
    if (is_hf_model(try_list_directory(model))) {
        hf::refuse_wrapped(model);
        throw Error(
            ErrorCode::not_found, directory.string() + " holds no shards",
            "there is nothing to merge: the HuggingFace model is complete in " + model.string());
    }
}

std::optional<fs::path> role_directory(const fs::path& directory, const Listing& listing,
                                       const std::string& role) {
    const bool actor = listing.has_directory("actor");
    const bool critic = listing.has_directory("critic");
    if (!actor && !critic) {
        return std::nullopt;
    }
    if (!role.empty() && !listing.has_directory(role)) {
        throw Error(
            ErrorCode::not_found, "--role " + role + " is not in " + directory.string(),
            std::string("give the role that is there: --role ") + (actor ? "actor" : "critic"));
    }
    if (role.empty() && actor && critic) {
        throw Error(ErrorCode::usage, directory.string() + " holds actor and critic",
                    "choose one with --role actor or --role critic");
    }
    return directory / (role.empty() ? (actor ? "actor" : "critic") : role);
}

std::optional<fs::path> model_directory(const fs::path& directory, const Listing& listing) {
    if (listing.has_file(kContentsFile)) {
        return listed_model(directory);
    }
    for (const NameRule& way : name_rules().ways) {
        const std::string path(way.patterns.front());
        const bool may_be = listing.has_directory(path.substr(0, path.find('/')));
        const bool has_all = std::ranges::all_of(way.beside, [&](std::string_view name) {
            return listing.has_directory(name.substr(0, name.find('/')));
        });
        if (may_be && has_all && io::is_directory(directory / path)) {
            return directory / path.substr(0, path.size() - 1);
        }
    }
    return std::nullopt;
}

void add_companions(Location& location, const fs::path& given) {
    for (const SearchDirectory& around : surroundings(location.directory, given)) {
        const fs::path& directory = around.directory;
        const auto take = [&](std::optional<fs::path>& into, const fs::path& root,
                              const fs::path& file) {
            into = !into && may_take(around, root, file, given, location.notes) ? root : into;
        };
        // verl's, and Megatron-Bridge's among the shards; transformers' trainer keeps them beside
        // the directory of the weights.
        take(location.hf_directory, directory / "huggingface",
             directory / "huggingface" / "config.json");
        if (directory == location.directory) {
            take(location.hf_directory, directory / "hf", directory / "hf" / "config.json");
        } else if (!location.hf_directory && !is_run_config(directory / "config.json")) {
            take(location.hf_directory, directory, directory / "config.json");
        }
        const fs::path tokenizer = directory.filename() == kPolicy
                                       ? directory / kPolicyTokenizer
                                       : directory / kNemoContext / kNemoTokenizer;
        take(location.tokenizer_directory, tokenizer, tokenizer / "tokenizer_config.json");
        add_listed(around, given, location);
        for (const fs::path& claims :
             {directory / "transformer_config.json", directory / kNemoContext / "model.yaml"}) {
            take(location.claims_file, claims, claims);
        }
        if (io::is_directory(directory / "adapter_checkpoint")) {
            location.notes.push_back("adapters are stored separately in " +
                                     (directory / "adapter_checkpoint").string() +
                                     " and are not merged");
        }
    }
    note_unfinished(location);
}

}  // namespace shardweld::formats
