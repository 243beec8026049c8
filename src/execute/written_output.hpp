// What one rank wrote of the output, and whether it is still there before it is published.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/input_file.hpp"
#include "io/throttle.hpp"
#include "io/written.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "plan/plan.hpp"

#include "journal.hpp"

namespace shardweld::execute {

/// The output's files as they were made.
struct CreatedFiles {
    std::vector<io::Identity> files;  ///< of the placement, alike on all ranks
    std::vector<io::WrittenFile>
        frames;  ///< this rank's: all that is not a tensor in files it made
    /// Whether all hosts number files alike; else inodes are compared within a host only.
    bool has_numbers = true;
};

/// A part of a block of which another rank wrote the rest.
struct BlockPart {
    std::uint32_t tensor = 0;
    Index begin = 0;  ///< elements
    Index end = 0;
    Digest digest{};
};

/// What one rank wrote, or took over from an earlier run.
struct Written {
    std::vector<DoneBlock> blocks;
    std::vector<BlockPart> edges;
    /// Files it has written to, held open so that no other file gets their numbers. Not more than a
    /// quarter of the descriptors that a process may have.
    std::vector<io::InputFile> held;
};

/// How what was written is checked.
struct CheckManner {
    bool all = false;  ///< everything is read back from the disk, not samples
    std::shared_ptr<io::Throttle> throttle = nullptr;  ///< that reading all keeps to
    std::function<std::string()> why_stop = {};        ///< as RunOptions::why_stop
    mpi::OnShare on_read = {};                         ///< told of reading all
};

/// Collective. Every rank holds the files it made and what it wrote against the disk: the file of
/// that name is the one that was made, with its size and rights; everything beside the tensors, and
/// of the tensors' blocks samples and those with holes, or all, are read back and compared with
/// their digests. Error(target) when the directory has been replaced; Error(io) naming the
/// file, and the tensor, that was changed; Error(stopped).
void check_written(mpi::Comm& comm, const plan::Plan& plan, const io::Directory& directory,
                   const CreatedFiles& created, const Written& written, const CheckManner& how);

}  // namespace shardweld::execute
