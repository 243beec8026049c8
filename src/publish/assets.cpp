#include "assets.hpp"

#include <algorithm>
#include <map>
#include <span>

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/output_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::publish {

namespace {

constexpr std::size_t kMaxFiles = 1000;
constexpr Bytes kMaxBytes = Bytes{1} << 30U;
// The most bytes of files that are kept in memory; larger ones stay open.
constexpr Bytes kMaxKept = Bytes{64} << 10U;
constexpr Bytes kMaxKeptInAll = Bytes{1} << 20U;
constexpr std::size_t kCopyBuffer = std::size_t{1} << 20U;

constexpr const char* kModules = "modules.json";
constexpr Bytes kMaxModules = Bytes{1} << 20U;

constexpr std::size_t kMostModules = 100;

/// What modules.json says.
struct ModuleList {
    std::vector<std::string> directories;  ///< "1_Pooling", of modules behind the transformer
    std::vector<std::string> lost;         ///< what cannot be followed: "0_Transformer (why)"
};

bool is_word_letter(char letter) {
    return letter == '_' || is_digit(letter) || (letter >= 'a' && letter <= 'z') ||
           (letter >= 'A' && letter <= 'Z');
}

bool is_config_name(std::string_view name) {
    return name == "config.json" || name.ends_with("_config.json");
}

std::string text_at(const nlohmann::json& module, const char* key) {
    const auto at = module.find(key);
    return at != module.end() && at->is_string() ? at->get<std::string>() : "";
}

void take_module(const nlohmann::json& module, ModuleList& found) {
    const std::string path = module.is_object() ? text_at(module, "path") : "";
    const std::string type = path.empty() ? "" : text_at(module, "type");
    if (path.empty() || type.ends_with("Normalize")) {
        return;  // the transformer itself, or a module without files
    }
    if (type.ends_with("Transformer")) {
        found.lost.push_back(path +
                             " (where modules.json has the model that is written beside it)");
    } else if (is_module_directory(path)) {
        if (!contains(found.directories, path)) {
            found.directories.push_back(path);
        }
    } else {
        found.lost.push_back(path + " (which modules.json names, and no module has)");
    }
}

/// Whether modules keep a file of this name in their directories.
bool is_of_module(std::string_view file_name) {
    return is_config_name(file_name) || file_name == "model.safetensors" ||
           file_name == "pytorch_model.bin";
}

/// Reads the text of a modules.json; paths that lead out of the model are among the lost.
ModuleList parse_modules(const std::string& text) {
    ModuleList found;
    const auto modules = parse_json<nlohmann::json>(text);
    if (!modules.is_array() || modules.size() > kMostModules) {
        found.lost.emplace_back("modules.json (no list of modules)");
        return found;
    }
    for (const nlohmann::json& module : modules) {
        take_module(module, found);
    }
    return found;
}

io::FileKind kind_of(const fs::directory_entry& entry) {
    return !entry.is_symlink() && entry.is_regular_file() ? io::FileKind::file
                                                          : io::kind_at(entry.path());
}

/// Files by their names relative to the model directory.
using KindByName = std::map<std::string, io::FileKind>;

/// The modules that modules.json names, if it is there.
ModuleList modules_of(const fs::path& hf_directory, const Opener& open) {
    const fs::path file = hf_directory / kModules;
    if (!io::is_file(file) || ::eaccess(file.c_str(), R_OK) != 0) {
        return {};
    }
    return parse_modules(io::text_of(open(file), kMaxModules));
}

/// Whatever is called like an asset, in the model directory, those of templates and `modules`.
KindByName entries_called_so(const fs::path& hf_directory,
                             const std::vector<std::string>& modules) {
    KindByName found;
    const auto look = [&](const std::string& below, bool is_module) {
        const fs::path directory = below.empty() ? hf_directory : hf_directory / below;
        for (const fs::directory_entry& entry : io::entries_of(directory)) {
            const std::string name = entry.path().filename().string();
            if (is_asset(name) || (is_module && is_of_module(name))) {
                found.emplace(below + name, kind_of(entry));
            }
        }
    };
    look("", false);
    for (const std::string_view name : known_words("directory of templates")) {
        if (io::is_directory(hf_directory / name)) {
            look(std::string(name) + "/", false);
        }
    }
    for (const std::string& name : modules) {
        if (io::is_directory(hf_directory / name)) {
            look(name + "/", true);
        }
    }
    return found;
}

void check_size(const io::InputFile& file) {
    if (file.size() > kMaxBytes) {
        throw Error(ErrorCode::unsupported,
                    file.path().string() + " has " + human_bytes(file.size()) +
                        "; a configuration or tokenizer file has at most " + human_bytes(kMaxBytes),
                    "give another directory with --hf_config");
    }
}

/// Files kept in memory use up `room`.
Asset asset_of(const std::string& name, const fs::path& path, const Opener& open, Bytes& room) {
    Asset asset{name, path, std::nullopt};
    if (::eaccess(path.c_str(), R_OK) != 0 && errno == EACCES) {
        return asset;
    }
    io::InputFile file = open(path);
    check_size(file);
    asset.stamp = file.stamp();
    if (file.size() <= std::min(kMaxKept, room)) {
        room -= file.size();
        asset.text = io::text_of(file, kMaxKept);
    } else {
        asset.file = std::make_shared<const io::InputFile>(std::move(file));
    }
    return asset;
}

/// Its name still leads to the file that was read, and that file is unchanged.
void require_unchanged(const Asset& asset) {
    struct stat now {};
    if (::stat(asset.source.c_str(), &now) != 0 && !io::means_absent(errno)) {
        io::throw_errno(errno, "examine", asset.source);
    }
    const io::FileStamp stamp =
        now.st_mode == 0 ? io::FileStamp() : io::stamp_of(now, asset.source.c_str());
    if (stamp != asset.stamp) {
        throw Error(
            ErrorCode::io,
            asset.source.string() + " was changed since this run read it (" +
                (now.st_mode == 0 ? "it is gone" : difference_of(asset.stamp, stamp)) +
                "), so that the model would get another file than the one that was examined",
            "start again");
    }
}

void copy_file(const io::InputFile& in, io::NotedFile& to) {
    ByteBuffer buffer(std::min<std::size_t>(kCopyBuffer, to_size(in.size(), "a file's size")));
    for (Bytes at = 0; at < in.size(); at += buffer.size()) {
        const auto part =
            std::span(buffer).first(std::min<std::size_t>(buffer.size(), in.size() - at));
        in.read_at(at, part);
        to.write(at, part);
    }
    in.require_unchanged();
}

/// How a large file begins and ends; "{}" of one that this user may not read.
std::string ends_of(const Asset& asset) {
    constexpr Bytes kEnd = 64;
    if (asset.file == nullptr || asset.file->size() < 2 * kEnd) {
        return "{}";
    }
    std::string ends(2 * kEnd, '\0');
    const auto bytes = std::as_writable_bytes(std::span(ends));
    asset.file->read_at(0, bytes.first(kEnd));
    asset.file->read_at(asset.file->size() - kEnd, bytes.last(kEnd));
    return ends;
}

bool is_no_json(const Asset& asset) {
    if (asset.text) {
        return parse_json<nlohmann::json>(without_nonfinite(*asset.text)).is_discarded();
    }
    const std::string ends = ends_of(asset);
    const std::string_view text = trim(ends);
    return text.empty() || !((text.front() == '{' && text.back() == '}') ||
                             (text.front() == '[' && text.back() == ']'));
}

}  // namespace

Bytes Asset::size() const {
    return text ? text->size() : file ? file->size() : 0;
}

std::optional<std::string> Asset::read_text(Bytes most) const {
    if (size() > most || (!text && !file)) {
        return std::nullopt;
    }
    return text ? text : io::text_of(*file, most);
}

bool is_about_codes(std::string_view name) {
    return is_known_as(name, "about codes");
}

bool is_module_directory(std::string_view name) {
    const std::size_t digits = name.find_first_not_of("0123456789");
    return digits != std::string_view::npos && digits > 0 && name[digits] == '_' &&
           digits + 1 < name.size() && std::ranges::all_of(name.substr(digits), is_word_letter);
}

bool is_asset(std::string_view file_name) {
    const auto is_one = [&](const char* what) { return is_known_as(file_name, what); };
    return !is_one("weights or index") && !is_one("beside a checkpoint") &&
           (is_one("about codes") || is_one("of sentence-transformers") ||
            is_one("beside weights"));
}

bool has_tokenizer(const std::vector<std::string>& file_names) {
    return std::ranges::any_of(file_names, [](std::string_view name) {
        if (name.starts_with(kBesideShards)) {
            name.remove_prefix(kBesideShards.size());
        }
        return is_known_as(name, "tokenizer");
    });
}

std::vector<std::string> names_of(const std::vector<Asset>& assets) {
    std::vector<std::string> names(assets.size());
    std::ranges::transform(assets, names.begin(), &Asset::name);
    return names;
}

std::vector<Asset> collect_assets(const fs::path& hf_directory, const Opener& open) {
    KindByName entries =
        entries_called_so(hf_directory, modules_of(hf_directory, open).directories);
    std::erase_if(entries, [](const auto& entry) { return entry.second != io::FileKind::file; });
    if (entries.size() > kMaxFiles) {
        throw Error(ErrorCode::unsupported,
                    hf_directory.string() + " holds " + std::to_string(entries.size()) +
                        " configuration, tokenizer and code files; a model directory has at most " +
                        std::to_string(kMaxFiles),
                    "give another directory with --hf_config");
    }
    std::vector<Asset> assets;
    assets.reserve(entries.size());
    Bytes room = kMaxKeptInAll;
    for (const auto& [name, kind] : entries) {
        assets.push_back(asset_of(name, hf_directory / name, open, room));
    }
    return assets;
}

std::vector<std::string> lost_assets(const fs::path& hf_directory, const Opener& open) {
    const ModuleList modules = modules_of(hf_directory, open);
    std::vector<std::string> lost = modules.lost;
    for (const std::string& name : modules.directories) {
        if (!io::is_directory(hf_directory / name)) {
            lost.push_back(name + " (which modules.json names)");
        }
    }
    for (const auto& [name, kind] : entries_called_so(hf_directory, modules.directories)) {
        // Directories such as "tokenizer" and "vocab" are not model files.
        const bool is_lost = kind == io::FileKind::directory ? fs::path(name).has_extension()
                                                             : kind != io::FileKind::file;
        if (is_lost) {
            const char* const what = kind == io::FileKind::none        ? " (a dangling link)"
                                     : kind == io::FileKind::directory ? " (a directory)"
                                                                       : " (a special file)";
            lost.push_back(name + what);
        }
    }
    std::ranges::sort(lost);
    return lost;
}

std::vector<std::string> unread_json(const std::vector<Asset>& assets) {
    return collect_list(assets, &Asset::name, [&](const Asset& asset) {
        return asset.name.ends_with(".json") && is_no_json(asset);
    });
}

std::vector<std::string> weights_among(const std::vector<Asset>& assets) {
    return collect_list(assets, &Asset::name, [&](const Asset& asset) {
        return is_known_as(asset.name, "weights or index");
    });
}

std::vector<io::WrittenFile> write_assets(const std::vector<Asset>& assets,
                                          const io::Directory& directory, bool sync,
                                          const std::function<void()>& before_file) {
    std::vector<io::WrittenFile> written;
    for (const Asset& asset : assets) {
        before_file();
        if (!asset.source.empty()) {
            require_unchanged(asset);
        }
        if (!asset.text && !asset.file) {
            throw Error(ErrorCode::io, asset.source.string() + " cannot be read by this user",
                        "have its owner permit it");
        }
        io::make_below(directory, fs::path(asset.name).parent_path());
        io::NotedFile file(io::OutputFile::create(directory, asset.name), asset.name);
        if (asset.text) {
            file.write(0, std::as_bytes(std::span(*asset.text)));
        } else {
            copy_file(*asset.file, file);
        }
        written.push_back(file.finish(sync));
    }
    return written;
}

}  // namespace shardweld::publish
