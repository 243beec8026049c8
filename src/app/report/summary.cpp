#include "summary.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "process/process.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

namespace {

struct Totals {
    Index parameters = 0;
    Bytes bytes = 0;  ///< of tensors
    Bytes read = 0;
    Bytes sent = 0;
    double seconds = 0;
    std::string dtypes;  ///< "bfloat16", the most bytes first
};

Totals totals_of(const OutputReport& report, const std::vector<Phase>& phases) {
    Totals totals;
    std::map<DType, Bytes> by_dtype;
    for (const TensorEntry& tensor : report.tensors) {
        totals.parameters += std::accumulate(tensor.shape.begin(), tensor.shape.end(), Index{1},
                                             std::multiplies<>());
        totals.bytes += tensor.bytes;
        by_dtype[tensor.dtype] += tensor.bytes;
    }
    std::vector<std::pair<Bytes, DType>> order;
    for (const auto& [dtype, bytes] : by_dtype) {
        order.emplace_back(bytes, dtype);
    }
    std::sort(order.rbegin(), order.rend());
    for (const auto& [bytes, dtype] : order) {
        totals.dtypes += (totals.dtypes.empty() ? "" : ", ") + std::string(torch_name(dtype));
    }
    for (const Phase& phase : phases) {
        totals.seconds += phase.wall_s;
        totals.read += phase.bytes_read;
        totals.sent += phase.bytes_sent;
    }
    return totals;
}

/// "7.24 billion", "135 million", "6,144".
std::string parameters_text(Index parameters) {
    std::array<char, 48> text{};
    const auto count = static_cast<double>(parameters);
    const auto put = [&](double number, const char* unit) {
        (void)std::snprintf(text.data(), text.size(), number < 100 ? "%.3g %s" : "%.0f %s", number,
                            unit);
    };
    if (count >= 1e9) {
        put(count / 1e9, "billion");
    } else if (count >= 1e6) {
        put(count / 1e6, "million");
    } else {
        return std::to_string(parameters);
    }
    return text.data();
}

std::string seconds_text(double seconds) {
    std::array<char, 48> text{};
    if (seconds >= 60) {
        const auto whole = static_cast<long>(seconds);
        (void)std::snprintf(text.data(), text.size(), "%ld min %ld s", whole / 60, whole % 60);
    } else {
        (void)std::snprintf(text.data(), text.size(), "%.*f s", seconds < 10 ? 1 : 0, seconds);
    }
    return text.data();
}

std::string rate_text(Bytes bytes, double seconds) {
    return human_bytes(static_cast<Bytes>(static_cast<double>(bytes) / std::max(seconds, 1e-3))) +
           "/s";
}

std::string verify_command(const Finished& finished) {
    const std::string report =
        finished.report.empty() ? "" : " --report " + process::shell_word(finished.report.string());
    return "shardweld verify " + process::shell_word(finished.target.string()) + report;
}

std::string load_command(const Finished& finished) {
    const std::string loader = finished.model_class.ends_with("ForCausalLM")
                                   ? "AutoModelForCausalLM"
                               : finished.model_class.empty() ? "AutoModel"
                                                              : finished.model_class;
    return "python3 -c 'from transformers import " + loader + " as M; M.from_pretrained(\"" +
           finished.target.string() + "\")'";
}

std::vector<std::string> next_commands(const OutputReport& report, const Finished& finished) {
    std::vector<std::string> commands;
    if (!finished.is_safetensors) {
        return commands;
    }
    commands.push_back(verify_command(finished));
    const bool has_config = std::find(report.side_files.begin(), report.side_files.end(),
                                      "config.json") != report.side_files.end();
    // What a shell or Python would read otherwise is left to the reader.
    const std::string target = finished.target.string();
    if (has_config && target.find_first_of("'\"\\\n") == std::string::npos) {
        commands.push_back(load_command(finished));
    }
    return commands;
}

std::string hosts_text(const RunReport& report) {
    const std::set<std::string> hosts(report.hosts.begin(), report.hosts.end());
    return counted(static_cast<std::size_t>(report.n_ranks), "rank") +
           (hosts.size() > 1 ? " on " + counted(hosts.size(), "host") : "");
}

}  // namespace

std::string summary_text(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases, const Finished& finished) {
    const Totals totals = totals_of(report, phases);
    const std::string name = finished.model_class.empty() ? "" : finished.model_class + ", ";
    std::string text = "wrote " + finished.target.string() + ": " + name +
                       parameters_text(totals.parameters) + " parameters, " + totals.dtypes;
    text += "\n  files: " + human_bytes(totals.bytes) + ", " +
            counted(report.tensors.size(), "tensor") + " in " +
            counted(report.files.size(), "file");
    if (!report.side_files.empty()) {
        text += "; beside them " + listed(report.side_files) +
                (publish::has_tokenizer(report.side_files) ? "" : " (no tokenizer)");
    }
    text += "\n  time: " + seconds_text(totals.seconds) + " with " + hosts_text(run) + ", " +
            rate_text(totals.bytes, totals.seconds) + "; read " + human_bytes(totals.read) +
            " from " + counted(run.input.n_files, "shard file") + ", sent " +
            human_bytes(totals.sent);
    text += finished.crc.empty() ? "" : "\n  checked: " + finished.crc;
    const std::size_t n_warnings = all_warnings(run, report).size();
    text += "\n  warnings: " + (n_warnings == 0 ? "none" : std::to_string(n_warnings));
    const char* label = "\n  next: ";
    for (const std::string& command : next_commands(report, finished)) {
        text += label + command;
        label = "\n        ";
    }
    return text;
}

std::string summary_json(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases, const Finished& finished) {
    const Totals totals = totals_of(report, phases);
    const nlohmann::ordered_json json = {
        {"event", "summary"},
        {"target", finished.target.string()},
        {"model_class", finished.model_class},
        {"parameters", totals.parameters},
        {"dtypes", totals.dtypes},
        {"files", report.files.size()},
        {"bytes", totals.bytes},
        {"seconds", totals.seconds},
        {"side_files", report.side_files},
        {"has_tokenizer", publish::has_tokenizer(report.side_files)},
        {"warnings", all_warnings(run, report).size()},
        {"next", next_commands(report, finished)}};
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace shardweld::app
