#include "hub_ahead.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "client.hpp"

namespace shardweld::upload {

namespace {

constexpr Bytes kMostProgram = 4096;
constexpr std::string_view kMagic = "#!";

/// Without a directory of the caller's among those that modules come from.
constexpr const char* kProgram = R"(import sys
sys.path[:] = [place for place in sys.path if place]
from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.utils import RevisionNotFoundError
repository, revision, is_private, is_first, name, path = sys.argv[1:]
api = HfApi()
if is_first:
    api.create_repo(repository, private=bool(is_private) or None, exist_ok=True)
if is_first and revision:
    try:
        api.repo_info(repository, revision=revision)
    except RevisionNotFoundError:
        api.create_branch(repository, branch=revision, exist_ok=True)
api.preupload_lfs_files(repository, [CommitOperationAdd(name, path)], revision=revision or None)
)";

/// The lines of a small program, without blanks around them; none of a longer one.
std::vector<std::string> lines_of(const fs::path& program) {
    const io::InputFile file = io::InputFile::open(program);
    std::string text(file.size() <= kMostProgram ? file.size() : 0, '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    std::vector<std::string> lines;
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
        const std::size_t end = line.find_last_not_of(" \t\r") + 1;
        lines.emplace_back(line.substr(begin, end > begin ? end - begin : 0));
    }
    return lines;
}

/// Whether lines behind the first are those of an entry point of huggingface_hub.
bool is_entry_point(std::span<const std::string> lines) {
    constexpr std::array<std::string_view, 6> kOthers = {"import re",
                                                         "import sys",
                                                         "if __name__ == ",
                                                         "if sys.argv[0].endswith(",
                                                         "elif sys.argv[0].endswith(",
                                                         "sys.argv[0] = "};
    bool is_of_hub = false;
    for (const std::string& line : lines) {
        const bool is_import =
            line.starts_with("from huggingface_hub.") && line.ends_with(" import main");
        const bool is_end = line == "sys.exit(main())";
        is_of_hub = is_of_hub || is_import;
        if (!line.empty() && line.front() != '#' && !is_import && !is_end &&
            std::ranges::none_of(kOthers, [&](std::string_view begin) {
                return begin.starts_with("import") ? line == begin : line.starts_with(begin);
            })) {
            return false;
        }
    }
    return is_of_hub;
}

}  // namespace

std::optional<fs::path> python_of(const fs::path& client, const std::string& path) {
    const std::vector<std::string> lines = lines_of(client);
    if (lines.size() < 3 || !lines[0].starts_with(kMagic)) {
        return std::nullopt;
    }
    auto words =
        process::words_of(lines[0].substr(kMagic.size())).value_or(std::vector<std::string>());
    std::span<const std::string> rest(lines.begin() + 1, lines.end());
    const auto second = process::words_of(lines[1]);
    const bool is_long = second && second->size() > 1 && second->front() == "exec";
    if (is_long && lines[2] == "' '''") {
        words = {(*second)[1]};
        rest = rest.subspan(2);
    }
    std::erase_if(words,
                  [](const std::string& word) { return word == "/usr/bin/env" || word == "-S"; });
    if (words.empty() || !fs::path(words.front()).filename().string().starts_with("python") ||
        !is_entry_point(rest)) {
        return std::nullopt;
    }
    const fs::path program = words.front();
    return program.is_absolute() ? std::optional(program)
                                 : process::find_program(words.front(), path);
}

void send_ahead(const UploadRequest& request, const Access& access, const fs::path& python,
                const EarlyFile& file, const std::function<bool()>& is_over) {
    ClientOutput output;
    process::Process client{python,
                            {"-c", kProgram, request.repository, request.revision,
                             request.is_private ? "private" : "", file.is_first ? "first" : "",
                             file.name, fs::absolute(request.directory / file.name).string()},
                            quiet_environment(),
                            std::nullopt,
                            output.listener(access.secrets)};
    client.is_over = is_over;
    const std::optional<process::Ending> ending = process::run(client);
    if (!ending || !ending->is_success()) {
        const UploadFailure failure = failure_of_ending(ending, output);
        throw Error(failure.code, file.name + " was not sent to " + request.repository + ": " +
                                      failure.what + output.words());
    }
}

}  // namespace shardweld::upload
