#include "listed_sums.hpp"

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kIntegrityFile = "integrity.json";
constexpr Bytes kLargestIntegrityFile = 64U << 20U;
constexpr std::size_t kDigits = 64;

bool is_sum(const nlohmann::json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    return text.size() == kDigits &&
           text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Megatron lists files of the directory itself.
bool is_file_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::map<std::string, std::string> sums_in(const nlohmann::json& root) {
    if (!root.is_object() || !root.contains("files") || !root["files"].is_object()) {
        throw Error(ErrorCode::corrupt, "is not a JSON object with `files`");
    }
    const auto algorithm = root.value("algorithm", nlohmann::json());
    if (algorithm != "sha256") {
        throw Error(
            ErrorCode::unsupported,
            "lists sums by the algorithm " + printable(algorithm.dump(), 60) + ", not sha256",
            "check them with the framework and remove the file");
    }
    std::map<std::string, std::string> sums;
    for (const auto& [name, sum] : root["files"].items()) {
        if (!is_file_name(name) || !is_sum(sum)) {
            throw Error(ErrorCode::corrupt,
                        "has an entry that is no file's SHA-256: " + printable(name, 200));
        }
        sums[name] = sum.get<std::string>();
    }
    return sums;
}

}  // namespace

std::map<std::string, std::string> listed_sums(const fs::path& directory) {
    const fs::path path = directory / kIntegrityFile;
    if (!io::is_file(path)) {
        return {};
    }
    try {
        return sums_in(parse_json<nlohmann::json>(io::read_text(path, kLargestIntegrityFile)));
    } catch (Error& error) {
        error.add_context("file " + path.string());
        throw;
    }
}

}  // namespace shardweld::formats
