#include "same_options.hpp"

#include "shardweld/core/error.hpp"
#include "shardweld/mpi/share.hpp"

namespace shardweld::app {

namespace {

/// An option as given; directories of one file system have other names on other nodes. A list
/// tells more than directories.
std::string text_of(const OptionRow& row, const std::string& value) {
    const bool is_path = row.names_path() && !row.is_repeated;
    return "--" + std::string(row.name) + (is_path ? "" : " " + value);
}

}  // namespace

std::string shared_text(const CommandRow& command, const Arguments& arguments) {
    std::string text(command.name);
    for (std::size_t i = 0; i < arguments.checkpoints.size(); ++i) {
        text += "\nanother checkpoint";  // which may be called otherwise on other nodes
    }
    for (const auto& [name, value] : arguments.values) {
        const OptionRow& row = *find_option(name);
        if (row.touches != Touches::loudness) {
            text += "\n" + text_of(row, value);
        }
    }
    return text;
}

std::vector<std::string> output_options(const Arguments& arguments) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : arguments.values) {
        const OptionRow& row = *find_option(name);
        if (row.touches == Touches::output) {
            texts.push_back(text_of(row, value));
        }
    }
    return texts;
}

void require_same_program(mpi::Comm& comm, const std::string& mine) {
    const std::vector<std::string> all = mpi::gather(comm, mine);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::launch,
                        "ranks 0 and " + std::to_string(rank) +
                            " run different programs: shardweld " + all[0] + " and " + all[rank],
                        "install one version on all nodes");
        }
    }
}

void require_same_options(mpi::Comm& comm, const std::string& text) {
    const std::vector<std::string> all = mpi::gather(comm, text);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(
                ErrorCode::usage,
                "ranks 0 and " + std::to_string(rank) + " were started with different options",
                "only directories may differ between ranks");
        }
    }
}

}  // namespace shardweld::app
