#include "same_options.hpp"

#include <algorithm>
#include <span>

#include "shardweld/core/error.hpp"

namespace shardweld::app {

namespace {

/// Options that may differ between ranks: they say only how much is told.
bool is_about_messages(const std::string& name) {
    return name == "verbose" || name == "quiet" || name == "log_level";
}

bool names_a_path(const std::string& name) {
    const auto& lines = option_lines();
    return std::any_of(lines.begin(), lines.end(), [&](const OptionLine& line) {
        return line.name == name &&
               (line.argument == "DIR" || line.argument == "FILE" || line.argument == "PATH");
    });
}

}  // namespace

std::string shared_text(const CommandLine& command, const Arguments& arguments) {
    std::string text(command.name);
    for (const auto& [name, value] : arguments.values) {
        if (!is_about_messages(name)) {
            text += "\n--" + name + (names_a_path(name) ? "" : " " + value);
        }
    }
    return text;
}

void require_same_program(mpi::Comm& comm, const std::string& mine) {
    const auto all = comm.all_gather(std::as_bytes(std::span(mine)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            const auto text_of = [](const std::vector<std::byte>& bytes) {
                return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            };
            throw Error(ErrorCode::launch, "ranks 0 and " + std::to_string(rank) +
                                               " run different programs: shardweld " +
                                               text_of(all[0]) + " and " + text_of(all[rank]) +
                                               "; install one version on all nodes");
        }
    }
}

void require_same_options(mpi::Comm& comm, const std::string& text) {
    const auto all = comm.all_gather(std::as_bytes(std::span(text)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::usage, "ranks 0 and " + std::to_string(rank) +
                                              " were started with different options: only "
                                              "directories may differ between ranks");
        }
    }
}

}  // namespace shardweld::app
