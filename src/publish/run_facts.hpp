// What a run's output depends on, kept in the journal's header and compared before it is resumed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/path.hpp"
#include "io/stamp.hpp"

namespace shardweld::publish {

/// A file that an output is made of, as it was.
struct InputFact {
    std::string name;  ///< relative to the checkpoint
    io::FileStamp stamp;
    /// Digest of what its metadata say: names, types, shapes, places and checksums of its tensors.
    std::uint64_t digest = 0;
    /// Whether those checksums speak for every byte that is read of it: then another number or
    /// change time (a copy, chmod) is no other input.
    bool is_proved = false;
    friend bool operator==(const InputFact&, const InputFact&) = default;
};

/// The facts that two runs have to share for one to take over the other's work.
struct RunFacts {
    std::string tool;                  ///< version and commit
    std::string plan;                  ///< hash of what is written
    std::string replicas;              ///< how copies are compared: auto, verify, trust
    std::vector<std::string> options;  ///< as given, e.g. "--dtype bf16"; they explain another plan
    std::vector<InputFact> inputs;
    friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

/// Writes the header into the journal's directory, in place of one that is there; a directory that
/// is made appears with it. With `sync` to the disk. Error(io), Error(space).
void write_header(const RunFacts& facts, const fs::path& journal, bool sync);

/// Error(target) when there is no header, or none that this version wrote.
RunFacts read_header(const fs::path& journal);

/// What is known before any metadata is read, held against the work at a target that a run would
/// take up: Error(target) when another version of the program began, Error(mismatch) when it
/// compared copies less strictly. Says nothing of a header that cannot be read: require_same does.
void require_same_way(const fs::path& target, const RunFacts& now);

/// How the output's files looked when a run had stopped in order, by name.
using OutputStamps = std::map<std::string, io::FileStamp>;

/// Beside the header. Error(io), Error(space).
void write_stamps(const OutputStamps& stamps, const fs::path& journal);

/// None where there are none, or none that can be read.
OutputStamps read_stamps(const fs::path& journal);

/// Error(mismatch) naming the first input file or the options that changed, Error(target) when
/// another version of the program began. `where` is the partial directory, for the message.
void require_same(const RunFacts& begun, const RunFacts& now, const fs::path& where);

}  // namespace shardweld::publish
