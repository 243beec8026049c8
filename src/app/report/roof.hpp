// A merge's speed beside the roof that iobench measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "core/path.hpp"
#include "mpi/comm.hpp"

#include "report.hpp"

namespace shardweld::app {

inline constexpr int kRoofSchema = 1;
inline constexpr const char* kRoofCommand = "iobench";

/// What a report of iobench says.
struct MeasuredRoof {
    double copy_gbs = 0;
    int n_ranks = 0;
    bool sync = false;
    double read_gbs = 0;   ///< reading alone; 0: not measured
    double write_gbs = 0;  ///< writing alone; the same
};

/// Local. Error(not_found), Error(corrupt) when it is not a report of iobench, Error(unsupported)
/// for another schema.
MeasuredRoof read_roof(const fs::path& path);

/// In which way a merge is not what was measured; for people.
std::vector<std::string> roof_doubts(const MeasuredRoof& roof, int n_ranks, bool sync);

/// Collective. What --roof names, on the first rank, which warns of doubts; nullopt elsewhere and
/// without --roof.
std::optional<MeasuredRoof> look_at_roof(mpi::Comm& comm, const Options& options, int n_ranks,
                                         Log& log);

/// GB/s of a merge: half of the bytes it must read and write, divided by the wall seconds of all
/// phases from `create` to `publish`. Pure.
double merge_gbs(const std::vector<Phase>& phases, Bytes read, Bytes written);

/// A merge of the plan beside the roof. Pure.
Roof compare_with_roof(const MeasuredRoof& roof, const std::vector<Phase>& phases,
                       const plan::Plan& plan);

/// "3.61 GB/s, 85 % of the roof measured by iobench".
std::string text_of(const Roof& roof);

}  // namespace shardweld::app
