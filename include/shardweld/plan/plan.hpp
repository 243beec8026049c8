// The whole plan of a run, the same value on every rank, and the rounds it is executed in.
// Pure; knows sizes, owners and readers, no descriptors and no MPI.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/outputs/format.hpp"
#include "shardweld/plan/binding.hpp"
#include "shardweld/plan/line_range.hpp"
#include "shardweld/plan/ownership.hpp"

namespace shardweld::catalogue {
struct Records;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

enum class Strategy {
    automatic,
    collective,  ///< each shard byte is read once, by one rank, and sent to its owner
    direct,      ///< owners read what they need, nothing is sent
};

/// How much of the replicas is compared.
enum class Replicas {
    automatic,  ///< nothing of those whose records state the checksum of the original's; of the
                ///< others all while they are at most a tenth of the model or 64 MiB, or where
                ///< checksums differ, else of each target samples of a twentieth of its bytes
    verify,
    trust,
};

/// Which ranks can read which files. Ranks with the same view share a group.
struct Visibility {
    std::vector<std::uint32_t> group_of_rank;
    std::vector<std::vector<bool>> group_sees;  ///< [group][file]

    [[nodiscard]] bool sees(int rank, std::uint32_t file) const {
        return group_sees[group_of_rank[static_cast<std::size_t>(rank)]][file];
    }
    /// Every rank sees all files.
    static Visibility everywhere(int n_ranks, std::size_t n_files);
};

/// Sizes of a rank's buffers in bytes; their sum stays inside --memory_limit.
struct Limits {
    Bytes step = 0;  ///< output assembled in one round by one owner; about a processor's cache
    Bytes round =
        0;  ///< the same for scattered targets, whose sources would else be read again and again
    Bytes assembled = 0;  ///< a round as it is stored
    Bytes converted = 0;  ///< a round as it is written, where that differs
    Bytes send = 0;       ///< sent by one rank in one round
    Bytes receive = 0;    ///< received by one rank in one round
    Bytes scratch = 0;    ///< one read
    Bytes compare = 0;    ///< one read of replicas
    Bytes message = 0;    ///< travels between a pair of ranks in one step
    Bytes fold = 0;       ///< factors and values of folded targets
    Bytes ahead = 0;      ///< the next round, read while one is exchanged, converted and written
    Bytes digests = 0;    ///< of a block that another rank begins, for checksums
    Bytes edges = 0;      ///< what places of buffers in a disk's blocks cost

    [[nodiscard]] Bytes total() const;
};

/// What the split of the memory depends on.
struct LimitNeeds {
    int n_ranks = 1;
    bool is_lockstep = false;   ///< messages are sent and received
    bool is_scattered = false;  ///< some target is scattered
    bool is_folding = false;    ///< some target is folded
    bool is_ahead = false;      ///< the next round is read meanwhile
    bool has_replicas = false;  ///< some are compared
    bool has_digests = false;   ///< checksums are computed
    double stored_share = 1;    ///< of a round's bytes, at most, as it is stored
    double written_share = 0;   ///< the same as it is written; 0: nothing is converted
};

/// Notes how much of a round's bytes, which count the wider type of each target, is what is stored
/// and what is written.
void note_shares(const std::vector<Target>& targets, LimitNeeds& needs);

/// A split of `memory_limit`; `message_limit` 0: as large as what is sent in a round. Error(usage)
/// below kLeastMemory.
Limits split_memory(Bytes memory_limit, Bytes message_limit, const LimitNeeds& needs);

/// Bytes of a tensor in one block of its checksum; its last block may have less.
inline constexpr Bytes kDigestBlock = Bytes{1} << 20U;

/// What buffers can be made of: half of the least --memory_limit, for a comparison reads the
/// reference with the other half.
inline constexpr Bytes kLeastMemory = Bytes{512} << 10U;

/// Whether some operand has no run that is contiguous in source and target (a transpose).
bool is_scattered(const Target& target);

/// Whether some target is folded.
bool folds(const std::vector<Target>& targets);

struct Plan;

struct Choice {
    Strategy strategy = Strategy::automatic;
    Replicas replicas = Replicas::automatic;
    Bytes max_shard_size = 5'000'000'000;
    const outputs::Format* output_format = &outputs::default_format();
    Bytes memory_limit = Bytes{256} << 20U;
    Bytes message_limit = 0;
    Bytes alignment = kPageBytes;  ///< of the cuts between owners, in files
    /// Seconds that a plan takes, by a measurement; decides between the strategies where neither is
    /// asked for. Empty: not measured.
    std::function<double(const Plan&)> cost;
    bool digests = false;     ///< of all tensors are computed
    bool read_ahead = false;  ///< ranks have a core to spare: read the next round meanwhile
    const catalogue::Records* records = nullptr;  ///< tell of replicas; null: nobody knows
    int max_readers = 0;  ///< ranks that read tensor data, at most; 0: all may

    /// Whether some of so many ranks may not read.
    [[nodiscard]] bool spares_ranks(int n_ranks) const {
        return max_readers > 0 && max_readers < n_ranks;
    }
};

/// A place in the source line (file, address): from here to the next one `reader` reads what owners
/// do not read themselves.
struct ReadCut {
    std::uint32_t file = 0;
    Bytes address = 0;
    std::uint32_t reader = 0;
};
[[nodiscard]] inline bool is_before(const ReadCut& a, const ReadCut& b) {
    return std::tie(a.file, a.address) < std::tie(b.file, b.address);
}

struct Plan {
    std::vector<Target> targets;
    outputs::Placement placement;
    OutputLine line;
    std::vector<Bytes> cuts;         ///< owners' runs on the line, n_ranks + 1
    std::vector<int> readers;        ///< ranks that may read, ascending
    std::vector<ReadCut> read_cuts;  ///< in order; none where owners read all themselves
    Strategy strategy = Strategy::direct;
    std::string why;           ///< of the strategy, for people
    bool is_lockstep = false;  ///< ranks exchange in common rounds (else each runs freely)
    Bytes replica_bytes = 0;
    Bytes equal_bytes = 0;     ///< of these, by their checksums: no target has them any more
    Bytes compared_bytes = 0;  ///< of these; about, where samples are
    /// By target: each of its replicas is compared in every n-th megabyte of the line; 0: not at
    /// all.
    std::vector<std::uint32_t> sample_every;
    Visibility visibility;
    Limits limits;
    std::vector<bool> scattered;  ///< by target

    [[nodiscard]] int n_ranks() const { return static_cast<int>(cuts.size()) - 1; }
    /// The rank that reads an operand for an owner.
    [[nodiscard]] int reader_of(const Operand& operand, const Target& target, int owner) const;
    /// Digest of what determines the output, for reports and agreement between ranks and runs: not
    /// their number, not the strategy.
    [[nodiscard]] std::string hash() const;
};

/// Cuts the line anew, so that each rank has as much of what no range of the united list `done`
/// holds.
void share_rest(Plan& plan, std::span<const LineRange> done, Bytes alignment);

/// Places, cuts and chooses. Error(mismatch) when there is nothing to write; Error(usage) when the
/// readers that Choice::max_readers allows do not see all files.
Plan make_plan(std::vector<Target> targets, const std::vector<catalogue::File>& files,
               Visibility visibility, const Choice& choice);

/// What outputs need to know of targets.
std::vector<outputs::OutputTensor> output_tensors(const std::vector<Target>& targets);

/// Elements [begin, end) of a target.
struct Slice {
    std::uint32_t target = 0;
    Index begin = 0;
    Index end = 0;
    Bytes line_begin = 0;  ///< line position of `begin`
};

/// The slices of a part of the line, in line order.
std::vector<Slice> slices_of(const Plan& plan, LineRange range);

/// Makes the rounds one after the other, the same on all ranks. In a lockstep plan a round has one
/// range per rank (possibly empty); no owner assembles more than Limits::round bytes and no reader
/// sends more than Limits::send. Otherwise rounds are those of one rank. What the united list
/// `done` holds is left out.
class Rounds {
  public:
    /// All ranks' rounds.
    explicit Rounds(const Plan& plan, std::span<const LineRange> done = {});
    /// One rank's rounds in a plan that is not lockstep: ranges of other ranks stay empty.
    Rounds(const Plan& plan, int rank, std::span<const LineRange> done = {});

    /// False when nothing is left. `ranges` gets one range per rank.
    bool next(std::vector<LineRange>& ranges);

    /// The most that one rank had in one round so far.
    struct Most {
        Bytes line = 0;  ///< of the output
        Bytes sent = 0;
        Bytes received = 0;
    };
    [[nodiscard]] const Most& most() const { return most_; }

  private:
    [[nodiscard]] Bytes step_end(Bytes begin, Bytes run_end, Bytes most) const;
    void fill(int owner, LineRange& range, std::vector<Bytes>& sent);
    [[nodiscard]] bool has_more(std::size_t owner);

    /// What an owner has to do, and how far it is.
    struct Run {
        std::vector<LineRange> parts;
        std::size_t part = 0;
        Bytes at = 0;
    };

    const Plan& plan_;
    std::vector<Run> runs_;
    Most most_;
};

/// Bytes that one round of a target costs per written byte: the wider of stored and written type.
Bytes buffer_bytes(const Target& target, Index n_elements);

std::string_view name_of(Strategy strategy);

}  // namespace shardweld::plan
