// What the options say about the output directory, and whether there is room for the output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/report/session.hpp"
#include "app/settings/options.hpp"
#include "app/survey/survey.hpp"
#include "core/system.hpp"
#include "mpi/comm.hpp"
#include "publish/assets.hpp"
#include "publish/room.hpp"
#include "publish/target.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// PATH; "" when it is not set or not listened to.
inline std::string search_path() {
    return variable("PATH").value_or("");
}

/// The directory of the session's output, and every directory that is read.
publish::TargetRequest target_request(const Session& session);

/// Local, one rank, before files are made in `directory`, for every command that writes: sets the
/// striping of --stripe. Error(unsupported) when it was asked for and cannot be done.
inline void stripe(const fs::path& directory, const Options& options) {
    if (options.striping) {
        publish::set_striping(directory, *options.striping, search_path());
    }
}

/// The files that are put beside the weights, as the rank sees them that will do so.
struct FilesBeside {
    Bytes bytes = 0;
    Index n_files = 0;  ///< with the directories they need

    static constexpr auto fields = [](auto& self) { return std::tie(self.bytes, self.n_files); };
};

/// Collective. What rank `home` finds of its `assets`, on all ranks. What they throw.
FilesBeside gather_side_files(mpi::Comm& comm, int home,
                              const std::function<std::vector<publish::Asset>()>& assets);

/// What a merge puts on the file system, at most at one time.
struct Needs {
    Bytes bytes = 0;
    Index n_files = 0;
    bool is_least = false;  ///< it may be more
};

/// The output, the files beside it, the factors of a fold (0: none), and the journal, which has a
/// file for each rank. Pure.
Needs needs_of(const plan::Plan& plan, const FilesBeside& beside, Bytes factor_bytes);

/// The least that a merge of a checkpoint will put there, by the sizes of its files: 0 where these
/// do not tell. Pure.
Needs least_needs(const Session& session, const FoundCheckpoint& found, const FilesBeside& beside);

/// Collective. What is left where the target will be made: on rank 0, nothing on the others.
publish::Room room_of_target(const Session& session);

/// Whose quotas are known ("user 1000"); empty where they are unknown. Pure.
std::vector<std::string> quotas_of(const publish::Room& room);
/// For people.
std::string quotas_text(const std::vector<std::string>& quotas);

/// Collective; rank 0's words count. Error(space) listing all that is short.
void require_room(const Session& session, const publish::Room& room, const Needs& needs);

}  // namespace shardweld::app
