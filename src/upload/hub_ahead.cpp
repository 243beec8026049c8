#include "hub_ahead.hpp"

#include <vector>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "client.hpp"

namespace shardweld::upload {

namespace {

constexpr Bytes kMostHead = 4096;
constexpr std::string_view kMagic = "#!";

/// Without a directory of the caller's among those that modules come from.
constexpr const char* kProgram = R"(import sys
sys.path[:] = [place for place in sys.path if place]
from huggingface_hub import CommitOperationAdd, HfApi
repository, revision, is_private, name, path = sys.argv[1:]
api = HfApi()
api.create_repo(repository, private=bool(is_private) or None, exist_ok=True)
if revision:
    api.create_branch(repository, branch=revision, exist_ok=True)
api.preupload_lfs_files(repository, [CommitOperationAdd(name, path)], revision=revision or None)
)";

/// The first two lines of a program, or what there is of them.
std::vector<std::string> first_lines(const fs::path& program) {
    const io::InputFile file = io::InputFile::open(program);
    std::string head(std::min(file.size(), kMostHead), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    std::vector<std::string> lines;
    for (const std::string_view line : split(head, '\n')) {
        lines.emplace_back(line);
    }
    lines.resize(2);
    return lines;
}

}  // namespace

std::optional<fs::path> python_of(const fs::path& client, const std::string& path) {
    const std::vector<std::string> lines = first_lines(client);
    if (!lines[0].starts_with(kMagic)) {
        return std::nullopt;
    }
    auto words =
        process::words_of(lines[0].substr(kMagic.size())).value_or(std::vector<std::string>());
    const auto second = process::words_of(lines[1]);
    if (second && second->size() > 1 && second->front() == "exec") {
        words = *second;
    }
    for (const std::string& word : words) {
        const fs::path program = word;
        if (program.filename().string().starts_with("python")) {
            return program.is_absolute() ? std::optional(program)
                                         : process::find_program(word, path);
        }
    }
    return std::nullopt;
}

void send_ahead(const UploadRequest& request, const Access& access, const fs::path& python,
                const std::string& name, const std::function<bool()>& is_over) {
    ClientOutput output;
    process::Process client{
        python,
        {"-c", kProgram, request.repository, request.revision, request.is_private ? "private" : "",
         name, fs::absolute(request.directory / name).string()},
        quiet_environment(),
        std::nullopt,
        output.listener(access.secrets)};
    client.is_over = is_over;
    const std::optional<process::Ending> ending = process::run(client);
    if (!ending || !ending->is_success()) {
        const UploadFailure failure = failure_of_ending(ending, output);
        throw Error(failure.code, name + " was not sent to " + request.repository + ": " +
                                      failure.what + output.words());
    }
}

}  // namespace shardweld::upload
