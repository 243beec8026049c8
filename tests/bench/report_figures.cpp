// report_figures REPORT: one line for scripts from a report. Of a merge: strategy, bytes read,
// bytes sent, rounds, largest peak of a rank, number of ranks, GB/s (0 without --roof). Of iobench:
// wall seconds, CPU seconds and GB/s of the copy.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace {

using Bytes = unsigned long long;

int run(const char* path) {
    const auto report = nlohmann::json::parse(std::ifstream(path));
    if (report.at("command") == "iobench") {
        const auto& copy = report.at("copy");
        std::printf("%.4f %.4f %.4f\n", copy.at("wall_s").get<double>(),
                    copy.at("cpu_s").get<double>(), copy.at("gbs").get<double>());
        return 0;
    }
    if (report.at("exit").at("code") != 0) {
        std::fprintf(stderr, "report_figures: the run failed: %s\n",
                     report.at("exit").at("message").get<std::string>().c_str());
        return 1;
    }
    Bytes read = 0;
    Bytes sent = 0;
    Bytes peak = 0;
    Bytes rounds = 0;
    for (const auto& rank : report.at("ranks")) {
        read += rank.at("bytes_read").get<Bytes>();
        sent += rank.at("bytes_sent").get<Bytes>();
        peak = std::max(peak, rank.at("peak_bytes").get<Bytes>());
        rounds = std::max(rounds, rank.at("rounds").get<Bytes>());
    }
    std::printf("%s %llu %llu %llu %llu %zu %.4f\n",
                report.at("plan").at("strategy").get<std::string>().c_str(), read, sent, rounds,
                peak, report.at("ranks").size(),
                report.at("roof").is_null() ? 0 : report.at("roof").at("merge_gbs").get<double>());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return argc == 2 ? run(argv[1]) : 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "report_figures: %s\n", error.what());
        return 1;
    }
}
