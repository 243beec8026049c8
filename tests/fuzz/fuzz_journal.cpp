// Any bytes as what a stopped merge left beside its files: a rank's records, as they are or under
// the checksums that fit them, or the header. Every block must be one of the plan, each once and in
// the order of the output space; tensors must lie inside the file where the header says they are.
#include <array>

#include <xxhash.h>

#include "execute/journal.hpp"
#include "outputs/format.hpp"
#include "plan/plan.hpp"
#include "publish/run_facts.hpp"
#include "support/small_targets.hpp"

#include "json_files.hpp"

namespace {

using namespace shardweld;
using fuzz::JsonFile;

constexpr std::size_t kChecked = 32;

/// Tensors of 2.5 MiB, 12 bytes and 1 MiB, in HDF5 files of at most 3 MiB.
plan::Plan hdf5_plan() {
    auto plan = test::small_plan();
    plan.placement = outputs::hdf5_format().place(plan::output_tensors(plan.targets), 3 * kMiB);
    return plan;
}

const plan::Plan& the_plan() {
    static const plan::Plan plan = hdf5_plan();
    return plan;
}

void records(const JsonFile& file) {
    static const fuzz::LinkDirectory directory("3-1");
    const execute::BlockPlaces places(the_plan());
    const auto read = execute::read_journal(directory.path(), the_plan());
    fuzz::require(read.last_session == 3 && read.blocks.size() <= places.count());
    fuzz::require(static_cast<std::size_t>(read.n_unreadable) <= file.text.size() / kChecked + 1);
    fuzz::require(read.sums.size() <= file.text.size() / kChecked);
    Bytes total = 0;
    std::size_t next = 0;
    for (const execute::DoneBlock& block : read.blocks) {
        fuzz::require(places.has(block) && places.index(block) >= next);
        next = places.index(block) + 1;
        const plan::OutputRange range = places.range(block);
        const plan::Slice slice = places.slice(block);
        const plan::WrittenTensor& tensor = the_plan().tensor(block.tensor);
        fuzz::require(range.begin < range.end && slice.begin < slice.end && slice.begin >= 0 &&
                      static_cast<Bytes>(slice.end) * size_of(tensor.dtype) <= tensor.bytes());
        total += range.end - range.begin;
    }
    fuzz::require(plan::total_of(places.ranges(read.blocks)) == total);
}

/// The text is records without their checksums, which no fuzzer guesses.
void sealed_records(const JsonFile& file) {
    std::string sealed;
    for (std::size_t at = 0; at < file.text.size(); at += kChecked) {
        const std::string part = file.text.substr(at, kChecked);
        sealed += part;
        const std::uint64_t check = XXH3_64bits(part.data(), part.size());
        for (unsigned bit = 0; bit < 64; bit += 8) {
            sealed += static_cast<char>((check >> bit) & 0xFFU);
        }
    }
    const auto& path =
        fuzz::file_with(reinterpret_cast<const std::uint8_t*>(sealed.data()), sealed.size());
    records({path, sealed});
}

void header(const JsonFile& /*file*/) {
    static const fuzz::LinkDirectory directory("header.json");
    static const publish::RunFacts now = {"0.1.0 (faa803c)",
                                          "6f9c1a34b352c147",
                                          "auto",
                                          {"--max_shard_size 64MB"},
                                          {{"mp_rank_00/model_optim_rng.pt",
                                            {98615630, 1, 1795327615216004496, 7340035},
                                            12345678901234567890U,
                                            true},
                                           {"mp_rank_01/model_optim_rng.pt",
                                            {98615630, 1, 1795327615216004496, 7340035},
                                            12345678901234567890U,
                                            true}}};
    const publish::RunFacts begun = publish::read_header(directory.path());
    publish::require_same(begun, now, directory.path());
    fuzz::require(begun.tool == now.tool && begun.plan == now.plan);
}

constexpr std::array<fuzz::JsonReader, 3> kJournalReaders = {records, sealed_records, header};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::read_json(kJournalReaders, data, size);
    return 0;
}
