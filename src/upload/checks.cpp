#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "core/text.hpp"
#include "core/weight_map.hpp"
#include "io/beneath.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "outputs/format.hpp"
#include "shardweld/error.hpp"

#include "upload.hpp"

namespace shardweld::upload {

namespace {

constexpr std::string_view kIndexEnd = ".index.json";
constexpr std::string_view kOwnTrace = "shardweld-";  // in the names of locks and partial outputs

[[noreturn]] void refuse(const fs::path& directory, const std::string& why) {
    throw Error(ErrorCode::not_found, directory.string() + " is not a finished model: " + why,
                "give a whole model directory, as shardweld merge writes it");
}

/// Names of the files (and what links lead to) directly in a directory.
std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        names.insert(entry.path().filename().string());
    }
    return names;
}

bool has_weights(const std::set<std::string>& names, std::string_view beginning) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        return name.starts_with(beginning) && is_weights(name);
    });
}

bool is_adapter(const std::set<std::string>& names) {
    return names.contains("adapter_config.json") && has_weights(names, "adapter_");
}

bool is_full(const fs::path& file) {
    std::error_code failed;
    return fs::is_regular_file(file, failed) && fs::file_size(file, failed) > 0 && !failed;
}

std::vector<std::string> files_in_index(const fs::path& directory, const std::string& name) {
    const std::string text = io::read_text(directory / name, kLongestWeightMap);
    try {
        return parse_weight_map(text, name).files;
    } catch (const Error& error) {
        refuse(directory, error.what());
    }
}

void check_index(const fs::path& directory, const std::string& name) {
    for (const std::string& file : files_in_index(directory, name)) {
        if (!is_full(directory / file)) {
            refuse(directory, name + " names " + printable(file) + ", which is missing or empty");
        }
    }
}

/// What begins with a dot and belongs to a repository, or is what the client never sends
/// (huggingface_hub 0.34, utils/_paths.py: DEFAULT_IGNORE_PATTERNS).
bool is_usual_dot_name(const std::string& name) {
    return name == ".gitattributes" || name == ".gitignore";
}
bool is_never_sent(const fs::path& directory, const fs::path& root) {
    const fs::path name = directory.lexically_relative(root);
    if (name != ".cache") {
        return name == ".git";
    }
    const auto entries = io::entries_of(directory);
    return std::all_of(entries.begin(), entries.end(), [](const fs::directory_entry& entry) {
        return entry.path().filename() == "huggingface";
    });
}

[[noreturn]] void refuse_to_send(const fs::path& path, const std::string& why) {
    throw Error(ErrorCode::corrupt,
                printable(path.string(), 1000) + " " + why +
                    ": whatever it leads to or holds would be published",
                "take it out of the model's directory first");
}

/// Error(corrupt) where the client would send what was not meant to be sent.
void check_entry(const fs::directory_entry& entry, const fs::path& root) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string();
    const bool is_link = entry.is_symlink();
    if (const auto end = is_link ? io::leads_out_of(path, root) : std::nullopt) {
        refuse_to_send(path,
                       "leads out of the model's directory, to " + printable(end->string(), 1000));
    }
    if (name.starts_with('.') && !is_usual_dot_name(name)) {
        refuse_to_send(path, "begins with a dot, unlike any file of a model");
    }
    const io::FileKind kind = io::kind_at(path);
    if (kind == io::FileKind::other || (is_link && kind != io::FileKind::file)) {
        refuse_to_send(path, kind == io::FileKind::other       ? "is not a regular file"
                             : kind == io::FileKind::directory ? "is a link to a directory"
                                                               : "is a dangling link");
    }
}

void check_tree(const fs::path& directory, const fs::path& root) {
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        const bool is_directory = !entry.is_symlink() && entry.is_directory();
        if (is_directory && is_never_sent(entry.path(), root)) {
            continue;
        }
        check_entry(entry, root);
        if (is_directory) {
            check_tree(entry.path(), root);
        }
    }
}

void add_files(const fs::path& directory, const fs::path& root, std::vector<ModelFile>& files) {
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        const bool is_directory = !entry.is_symlink() && entry.is_directory();
        if (!is_directory) {
            files.push_back({entry.path().lexically_relative(root).string(), entry.file_size()});
        } else if (!is_never_sent(entry.path(), root)) {
            add_files(entry.path(), root, files);
        }
    }
}

}  // namespace

bool is_weights(const std::string& name) {
    return name.ends_with(".bin") || outputs::is_output_name(name);
}

std::vector<ModelFile> files_sent(const fs::path& directory,
                                  const std::vector<std::string>& kept_back) {
    std::vector<ModelFile> files;
    add_files(directory, directory, files);
    std::erase_if(
        files, [&](const ModelFile& file) { return std::ranges::count(kept_back, file.name) > 0; });
    return files;
}

void check_sent(const fs::path& directory) {
    check_tree(directory, directory);
}

void check_model(const fs::path& directory) {
    std::error_code failed;
    if (!fs::is_directory(directory, failed)) {
        throw Error(ErrorCode::not_found, directory.string() + " is not a readable directory",
                    "check the path");
    }
    const std::string own = io::without_dots(directory).filename();
    const std::set<std::string> names = names_in(directory);
    for (const std::string& name : names) {
        if (name.find(kOwnTrace) != std::string::npos && name.starts_with(".")) {
            refuse(directory, "it holds " + name + ", left by a run that has not finished");
        }
        if (is_weights(name) && !is_full(directory / name)) {
            refuse(directory, name + " is empty or dangling");
        }
    }
    if (own.starts_with(".") && own.find(kOwnTrace) != std::string::npos) {
        refuse(directory, "it is the partial output of a run");
    }
    const bool has_adapter =
        is_adapter(names) ||
        (names.contains("lora_adapter") && is_adapter(names_in(directory / "lora_adapter")));
    if (!has_adapter && !names.contains("config.json")) {
        refuse(directory, "it has no config.json");
    }
    if (!has_adapter && !has_weights(names, "")) {
        refuse(directory, "it has no weights (*.safetensors)");
    }
    for (const std::string& name : names) {
        if (name.ends_with(kIndexEnd)) {
            check_index(directory, name);
        }
    }
    check_sent(directory);
}

namespace {

constexpr std::size_t kMostLetters = 96;

bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_edge(char c) {
    return c == '-' || c == '.';
}

}  // namespace

std::string fault_of_repository(const std::string& name) {
    const auto parts = split(name, '/');
    if (parts.size() != 2) {
        return "is not a repository's name of owner and model";
    }
    for (const std::string_view part : parts) {
        if (part.empty() || part.size() > kMostLetters ||
            !std::all_of(part.begin(), part.end(), is_letter)) {
            return "has a part that is not 1 to 96 of letters, digits, '-', '_' and '.'";
        }
        if (is_edge(part.front()) || is_edge(part.back())) {
            return "has a part that begins or ends with '-' or '.'";
        }
    }
    const bool is_odd = name.find("--") != std::string::npos ||
                        name.find("..") != std::string::npos || name.ends_with(".git");
    return is_odd ? "has '--', '..' or ends in '.git', which the Hub does not allow" : "";
}

void check_repository(const std::string& name) {
    if (const std::string fault = fault_of_repository(name); !fault.empty()) {
        throw Error(ErrorCode::usage, "--hf_upload_path " + printable(name) + " " + fault,
                    "give ORG/NAME, for example me/my-model");
    }
}

namespace {

constexpr Bytes kMostTokenFile = 65536;
/// Shorter texts are no tokens, and hiding them would make messages unreadable.
constexpr std::size_t kLeastSecret = 4;

std::string value_of(const Environment& environment, const char* name) {
    return environment(name).value_or("");
}

fs::path with_home(const std::string& path, const fs::path& home) {
    return path.starts_with("~/") ? home / path.substr(2) : fs::path(path);
}

fs::path token_file(const Environment& environment) {
    const fs::path home = value_of(environment, "HOME");
    if (const auto path = value_of(environment, "HF_TOKEN_PATH"); !path.empty()) {
        return with_home(path, home);
    }
    if (const auto path = value_of(environment, "HF_HOME"); !path.empty()) {
        return with_home(path, home) / "token";
    }
    const auto cache = value_of(environment, "XDG_CACHE_HOME");
    return (cache.empty() ? home / ".cache" : with_home(cache, home)) / "huggingface" / "token";
}

std::string text_in(const fs::path& file) {
    try {
        return io::read_text(file, kMostTokenFile);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

Tokens find_tokens(const Environment& environment) {
    Tokens tokens;
    tokens.file = token_file(environment);
    for (const std::string& text :
         {value_of(environment, "HF_TOKEN"), value_of(environment, "HUGGING_FACE_HUB_TOKEN"),
          text_in(tokens.file)}) {
        const std::string value(trim(text));
        tokens.is_present = tokens.is_present || !value.empty();
        if (value.size() >= kLeastSecret) {
            tokens.values.push_back(value);
        }
    }
    // An identity of the CI system, which the client exchanges for a token.
    tokens.is_present = tokens.is_present || !value_of(environment, "HF_OIDC_RESOURCE").empty();
    return tokens;
}

}  // namespace shardweld::upload
