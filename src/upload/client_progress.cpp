#include "client_progress.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace shardweld::upload {

namespace {

constexpr Bytes kHundred = 100;

/// "model.safetensors:  19%|..." -> the label before the colon and 19; nullopt for other lines.
std::optional<std::pair<std::string_view, Bytes>> bar_of(std::string_view line) {
    const std::size_t sign = line.find("%|");
    const std::size_t colon = line.substr(0, sign).rfind(':');
    if (sign == std::string_view::npos || colon == std::string_view::npos) {
        return std::nullopt;
    }
    const std::size_t begin = std::min(line.find_first_not_of(' ', colon + 1), sign);
    Bytes percent = 0;
    const auto read = std::from_chars(line.data() + begin, line.data() + sign, percent);
    if (read.ec != std::errc() || read.ptr != line.data() + sign || percent > kHundred) {
        return std::nullopt;
    }
    return std::pair(line.substr(0, colon), percent);
}

}  // namespace

ClientProgress::ClientProgress(const fs::path& directory,
                               const std::vector<std::string>& kept_back) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(directory, failed)) {
        const Bytes size = entry.file_size(failed);
        if (!failed && std::ranges::count(kept_back, entry.path().filename().string()) == 0) {
            total_ += size;
            files_[entry.path().filename().string()].size = size;
        }
    }
}

Bytes ClientProgress::read(std::string_view line) {
    const auto bar = bar_of(line);
    if (!bar) {
        return done_;
    }
    const auto& [label, percent] = *bar;
    if (label.starts_with("Processing Files")) {
        done_ = std::max(done_, total_ / kHundred * percent);
    } else if (const auto file = files_.find(label); file != files_.end()) {
        const Bytes sent = file->second.size / kHundred * percent;
        done_ += sent - std::min(sent, file->second.sent);
        file->second.sent = std::max(sent, file->second.sent);
    }
    return done_;
}

}  // namespace shardweld::upload
