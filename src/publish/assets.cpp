#include "shardweld/publish/assets.hpp"

#include <algorithm>
#include <array>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/entries.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"

namespace shardweld::publish {

namespace {

constexpr std::size_t kMaxFiles = 1000;
constexpr Bytes kMaxBytes = Bytes{1} << 30U;
constexpr std::size_t kCopyBuffer = std::size_t{1} << 20U;

// Directories of additional chat templates: transformers 4.51 and the name used before release.
constexpr std::array<std::string_view, 2> kTemplateDirectories = {"additional_chat_templates",
                                                                  "chat_templates"};
constexpr std::array<std::string_view, 14> kNames = {
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "image_processor_config.json",
    "feature_extractor_config.json",
    "normalizer.json",
    "chat_template.json",
    "chat_template.jinja",
    "spiece.model",
    "sentencepiece.bpe.model",
};
constexpr std::array<std::string_view, 2> kPrefixes = {"tokenizer", "vocab"};
constexpr std::array<std::string_view, 4> kSuffixes = {".model", ".tiktoken", ".py", ".jinja"};
constexpr std::array<std::string_view, 10> kWeights = {".safetensors", ".bin", ".pt",   ".pth",
                                                       ".distcp",      ".h5",  ".gguf", ".ckpt",
                                                       ".index.json",  ".npz"};

template <typename List>
bool ends_with_any(std::string_view name, const List& suffixes) {
    return std::any_of(suffixes.begin(), suffixes.end(),
                       [&](std::string_view suffix) { return name.ends_with(suffix); });
}

io::Kind kind_of(const fs::directory_entry& entry) {
    return !entry.is_symlink() && entry.is_regular_file() ? io::Kind::file
                                                          : io::kind_at(entry.path());
}

struct Entry {
    std::string name;  ///< relative to the model directory
    fs::path path;
    io::Kind kind = io::Kind::file;
};

/// Whatever is called like an asset, in the model directory and those of templates.
std::vector<Entry> entries_called_so(const fs::path& hf_directory) {
    std::vector<Entry> found;
    const auto look = [&](const fs::path& directory, const std::string& prefix) {
        for (const fs::directory_entry& entry : io::entries_of(directory)) {
            const std::string name = entry.path().filename().string();
            if (is_asset(name)) {
                found.push_back({prefix + name, entry.path(), kind_of(entry)});
            }
        }
    };
    look(hf_directory, "");
    for (const std::string_view name : kTemplateDirectories) {
        if (io::is_directory(hf_directory / name)) {
            look(hf_directory / name, std::string(name) + "/");
        }
    }
    std::sort(found.begin(), found.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return found;
}

void check_size(const fs::path& path) {
    std::error_code failed;
    const auto size = fs::file_size(path, failed);
    if (!failed && size > kMaxBytes) {
        throw Error(ErrorCode::unsupported, path.string() + " has " + human_bytes(size) +
                                                "; a configuration or tokenizer file has at most " +
                                                human_bytes(kMaxBytes) +
                                                ": give another directory with --hf_config");
    }
}

void copy_file(const fs::path& from, const fs::path& to, bool sync) {
    const io::InputFile in = io::InputFile::open(from);
    io::OutputFile out = io::OutputFile::create(to);
    std::vector<std::byte> buffer(
        std::min<std::size_t>(kCopyBuffer, to_size(in.size(), "a file's size")));
    for (Bytes at = 0; at < in.size(); at += buffer.size()) {
        const auto part =
            std::span(buffer).first(std::min<std::size_t>(buffer.size(), in.size() - at));
        in.read_at(at, part);
        out.write_at(at, part);
    }
    in.require_unchanged();
    if (sync) {
        out.sync();
    }
    out.close();
}

}  // namespace

bool is_asset(std::string_view file_name) {
    if (file_name.starts_with('.') || ends_with_any(file_name, kWeights)) {
        return false;
    }
    return std::find(kNames.begin(), kNames.end(), file_name) != kNames.end() ||
           std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [&](std::string_view prefix) { return file_name.starts_with(prefix); }) ||
           ends_with_any(file_name, kSuffixes);
}

std::vector<Asset> collect_assets(const fs::path& hf_directory) {
    std::vector<Asset> assets;
    for (const Entry& entry : entries_called_so(hf_directory)) {
        if (entry.kind == io::Kind::file) {
            check_size(entry.path);
            assets.push_back({entry.name, entry.path, std::nullopt});
        }
    }
    if (assets.size() > kMaxFiles) {
        throw Error(ErrorCode::unsupported,
                    hf_directory.string() + " holds " + std::to_string(assets.size()) +
                        " configuration, tokenizer and code files; a model directory has at most " +
                        std::to_string(kMaxFiles) + ": give another directory with --hf_config");
    }
    return assets;
}

std::vector<std::string> lost_assets(const fs::path& hf_directory) {
    std::vector<std::string> lost;
    for (const Entry& entry : entries_called_so(hf_directory)) {
        // Directories such as "tokenizer" and "vocab" are nobody's files.
        const bool is_lost = entry.kind == io::Kind::directory
                                 ? fs::path(entry.name).has_extension()
                                 : entry.kind != io::Kind::file;
        if (is_lost) {
            const char* const what = entry.kind == io::Kind::none        ? " (a link to nothing)"
                                     : entry.kind == io::Kind::directory ? " (a directory)"
                                                                         : " (a special file)";
            lost.push_back(entry.name + what);
        }
    }
    return lost;
}

void write_assets(const std::vector<Asset>& assets, const fs::path& directory, bool sync,
                  const std::function<void()>& before_file) {
    for (const Asset& asset : assets) {
        before_file();
        const fs::path to = directory / asset.name;
        std::error_code failed;
        fs::create_directories(to.parent_path(), failed);
        if (failed) {
            io::throw_errno(failed.value(), "create directory", to.parent_path());
        }
        if (asset.text) {
            io::write_text(to, *asset.text, sync);
        } else {
            copy_file(asset.source, to, sync);
        }
    }
}

}  // namespace shardweld::publish
