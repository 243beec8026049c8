#include "roof.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "io/whole_file.hpp"
#include "plan/plan.hpp"

#include "report_json.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;

constexpr Bytes kLargestReport = Bytes{16} << 20U;

[[noreturn]] void refuse_roof(const fs::path& path, const std::string& why) {
    throw Error(ErrorCode::corrupt,
                "--roof " + path.string() + " is not a report of iobench: " + why,
                "make one with: shardweld iobench DIR --report FILE");
}

/// The speed of a kind of run; 0 where the report does not have it.
double speed_in(const Json& report, const char* kind) {
    const Json run = report.value(kind, Json::object());
    const Json gbs = run.is_object() ? run.value("gbs", Json()) : Json();
    const double speed = gbs.is_number() ? gbs.get<double>() : 0;
    return std::isfinite(speed) && speed > 0 ? speed : 0;
}

}  // namespace

MeasuredRoof read_roof(const fs::path& path) {
    const Json report = parse_with_nonfinite(io::read_text(path, kLargestReport));
    if (!report.is_object() || report.value("command", Json()) != Json(kRoofCommand)) {
        refuse_roof(path, "it does not say so");
    }
    if (report.value("schema", Json()) != Json(kRoofSchema)) {
        throw Error(ErrorCode::unsupported,
                    "--roof " + path.string() + " has another schema than this version's",
                    "make one with: shardweld iobench DIR --report FILE");
    }
    const double copy_gbs = speed_in(report, "roof");
    const Json ranks = report.value("ranks", Json());
    const Json sync = report.value("fsync", Json());
    if (copy_gbs <= 0) {
        refuse_roof(path, "roof.gbs is not a positive number");
    }
    if (!ranks.is_number_integer() || !sync.is_boolean()) {
        refuse_roof(path, "it says neither ranks nor fsync");
    }
    return {copy_gbs, ranks.get<int>(), sync.get<bool>(), speed_in(report, "read"),
            speed_in(report, "write")};
}

std::vector<std::string> roof_doubts(const MeasuredRoof& roof, int n_ranks, bool sync) {
    std::vector<std::string> doubts;
    if (roof.n_ranks != n_ranks) {
        doubts.push_back("the roof was measured with " + std::to_string(roof.n_ranks) +
                         " ranks, this merge has " + std::to_string(n_ranks));
    }
    if (roof.sync != sync) {
        doubts.push_back(std::string("the roof was measured ") + (roof.sync ? "with" : "without") +
                         " fsync, this merge is " + (sync ? "with" : "without"));
    }
    return doubts;
}

std::optional<MeasuredRoof> look_at_roof(mpi::Comm& comm, const Options& options, int n_ranks,
                                         Log& log) {
    std::optional<MeasuredRoof> roof;
    mpi::collectively(comm, [&] {
        if (!options.roof || comm.rank() != 0) {
            return;
        }
        roof = read_roof(*options.roof);
        for (const std::string& doubt : roof_doubts(*roof, n_ranks, options.sync)) {
            log.warning(doubt);
        }
    });
    return roof;
}

double merge_gbs(const std::vector<Phase>& phases, Bytes read, Bytes written) {
    double seconds = 0;
    bool is_counted = false;
    for (const Phase& phase : phases) {
        is_counted = is_counted || phase.name == "create";
        seconds += is_counted ? phase.wall_s : 0;
        if (phase.name == "publish") {
            break;
        }
    }
    return seconds > 0 ? (static_cast<double>(read) + static_cast<double>(written)) / 2e9 / seconds
                       : 0;
}

Roof compare_with_roof(const MeasuredRoof& roof, const std::vector<Phase>& phases,
                       const plan::Plan& plan) {
    Bytes read = 0;
    for (const plan::Target& target : plan.targets) {
        read += plan::source_bytes(target);
    }
    const double speed = merge_gbs(phases, read, plan.placement.tensor_bytes);
    return {roof.copy_gbs, speed, 100 * speed / roof.copy_gbs};
}

std::string text_of(const Roof& roof) {
    std::array<char, 96> text{};
    (void)std::snprintf(text.data(), text.size(),
                        "%.2f GB/s, %.0f %% of the roof measured by iobench", roof.merge_gbs,
                        roof.percent);
    return text.data();
}

}  // namespace shardweld::app
