// What a run's output depends on, kept in the journal's header and compared before it is resumed.
// Knows names, sizes and times; nothing of tensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/outputs/output.hpp"

namespace shardweld::publish {

namespace fs = std::filesystem;

struct InputFact {
    std::string name;  ///< relative to the checkpoint
    Bytes size = 0;
    Index mtime_ns = 0;  ///< since 1970
    friend bool operator==(const InputFact&, const InputFact&) = default;
};

struct RunFacts {
    std::string tool;                  ///< version and commit
    std::string plan;                  ///< hash of what is written
    std::string replicas;              ///< how copies are compared: auto, verify, trust
    std::vector<std::string> options;  ///< as given, e.g. "--dtype bf16"; they explain another plan
    std::vector<InputFact> inputs;
    /// Where a library has put the raw data; not compared.
    std::vector<outputs::RawOffsets> raw = {};
    friend bool operator==(const RunFacts&, const RunFacts&) = default;
};

/// Writes the header into the journal's directory, which is made, in place of one that is there.
/// Error(io), Error(space).
void write_header(const RunFacts& facts, const fs::path& journal, bool sync);

/// Error(target) when there is no header, or none that this version wrote.
RunFacts read_header(const fs::path& journal);

/// Error(mismatch) naming the first input file or the options that changed, Error(target) when
/// another version of the program began. `where` is the partial directory, for the message.
void require_same(const RunFacts& begun, const RunFacts& now, const fs::path& where);

}  // namespace shardweld::publish
