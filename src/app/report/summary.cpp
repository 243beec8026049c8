#include "summary.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "process/process.hpp"
#include "publish/assets.hpp"
#include "publish/report_file.hpp"

#include "report_json.hpp"

namespace shardweld::app {

namespace {

struct Totals {
    Bytes bytes = 0;  ///< of tensors
    Bytes read = 0;
    Bytes sent = 0;
    double seconds = 0;
    std::string dtypes;  ///< "bfloat16", the most bytes first
};

std::vector<DType> most_first(const std::map<DType, Bytes>& by_dtype) {
    std::vector<std::pair<Bytes, DType>> order;
    order.reserve(by_dtype.size());
    for (const auto& [dtype, bytes] : by_dtype) {
        order.emplace_back(bytes, dtype);
    }
    std::sort(order.rbegin(), order.rend());
    std::vector<DType> dtypes;
    std::ranges::transform(order, std::back_inserter(dtypes), &std::pair<Bytes, DType>::second);
    return dtypes;
}

std::string names_of(const std::vector<DType>& dtypes) {
    return joined(dtypes, ", ", [](DType dtype) { return torch_name(dtype); });
}

Totals totals_of(const OutputReport& report, const std::vector<Phase>& phases) {
    Totals totals;
    std::map<DType, Bytes> by_dtype;
    for (const TensorEntry& tensor : report.tensors) {
        totals.bytes += tensor.bytes;
        by_dtype[tensor.dtype] += tensor.bytes;
    }
    totals.dtypes = names_of(most_first(by_dtype));
    for (const Phase& phase : phases) {
        totals.seconds += phase.wall_s;
        totals.read += phase.bytes_read;
        totals.sent += phase.bytes_sent;
    }
    return totals;
}

/// "155,584".
std::string with_commas(Index number) {
    std::string text = std::to_string(number);
    for (std::size_t at = text.size(); at > 3; at -= 3) {
        text.insert(at - 3, ",");
    }
    return text;
}

/// "7.24 billion", "135 million", "6,144".
std::string count_text(Index parameters) {
    const auto count = static_cast<double>(parameters);
    if (count < 1e6) {
        return with_commas(parameters);
    }
    const double number = count / (count >= 1e9 ? 1e9 : 1e6);
    return formatted(number < 100 ? "%.3g %s" : "%.0f %s", number,
                     count >= 1e9 ? "billion" : "million");
}

std::string seconds_text(double seconds) {
    const auto whole = static_cast<long>(seconds);
    return seconds >= 60 ? formatted("%ld min %ld s", whole / 60, whole % 60)
                         : formatted("%.*f s", seconds < 10 ? 1 : 0, seconds);
}

std::string rate_text(Bytes bytes, double seconds) {
    return human_bytes(static_cast<Bytes>(static_cast<double>(bytes) / std::max(seconds, 1e-3))) +
           "/s";
}

/// "model-00001-of-00012.safetensors and 11 more (291 tensors, 15.2 GB)".
std::string weights_text(const OutputReport& report, Bytes bytes) {
    std::vector<std::string> names = collect_list(
        report.files, &FileEntry::name,
        [&](const FileEntry& file) { return !contains(report.side_files, file.name); });
    constexpr std::size_t kFew = 2;
    const std::string more =
        names.size() > kFew ? " and " + std::to_string(names.size() - 1) + " more" : "";
    names.resize(more.empty() ? names.size() : 1);
    return joined(names, ", ") + more + " (" + counted(report.tensors.size(), "tensor") + ", " +
           human_bytes(bytes) + ")";
}

bool has(const OutputReport& report, const std::string& file) {
    return contains(report.side_files, file);
}

/// Whether a path can stand in a command or in Python as it is. Others are not put into examples.
bool is_plain(const std::string& path) {
    return path.find_first_of("'\"\\\n") == std::string::npos;
}

/// transformers' class for models like this one.
std::string loader_of(const std::string& model_class) {
    return model_class.ends_with("ForCausalLM") ? "AutoModelForCausalLM"
           : model_class.empty()                ? "AutoModel"
                                                : model_class;
}

/// Whether vLLM may generate text with models of this class, which transformers need not have:
/// `check` knows.
bool is_served(const std::string& model_class) {
    return model_class.ends_with("ForCausalLM") ||
           model_class.ends_with("ForConditionalGeneration");
}

std::string load_command(const OutputReport& report) {
    const std::string target = report.asked.directory.string();
    if (is_served(report.model_class)) {
        return "vllm serve " + process::shell_word(target);
    }
    return is_plain(target)
               ? "python3 -c 'from transformers import " + loader_of(report.model_class) +
                     " as M; M.from_pretrained(\"" + target + "\")'"
               : "";
}

std::string check_command(const OutputReport& report) {
    const char* const where = report.format == "gguf"         ? " --target llama.cpp"
                              : is_served(report.model_class) ? " --target vllm"
                                                              : "";
    return "shardweld check " + process::shell_word(report.asked.directory.string()) + where;
}

/// Commands that end with the trained model in memory; none where it is not known how.
std::vector<std::string> next_commands(const OutputReport& report) {
    std::vector<std::string> commands;
    if (report.format == "gguf") {
        const std::string file = report.files.empty() ? "" : report.files.front().name;
        commands = {
            check_command(report),
            "llama-cli -m " + process::shell_word((report.asked.directory / file).string())};
    } else if (has(report, "config.json") && report.format != "hdf5") {
        commands = {check_command(report), load_command(report)};
    }
    std::erase(commands, "");
    return commands;
}

/// Python that loads an adapter on its base, which is without it.
std::string peft_lines(const OutputReport& report, bool has_base) {
    // Adapters whose base is not known are mostly of language models.
    const std::string loader =
        loader_of(report.model_class.empty() ? "ForCausalLM" : report.model_class);
    const fs::path& target = report.asked.directory;
    const std::string base = has_base ? target.string() : "the base model";
    return "\n        from transformers import " + loader +
           "\n        from peft import PeftModel"
           "\n        base = " +
           loader + ".from_pretrained(" + json_string(base) +
           ")\n        model = PeftModel.from_pretrained(base, " +
           json_string((target / "lora_adapter").string()) + ")";
}

Headline next_line(const OutputReport& report) {
    Headline line{"next", "", "", true};
    const std::string target = report.asked.directory.string();
    const bool has_base = report.size.parameters > 0;
    if (report.size.adapter > 0) {
        line.subject = has_base ? "the base in " + target + " is without the adapter; load both"
                                : "load the adapter on its base";
        line.rest = ":" + peft_lines(report, has_base) + "\n      or merge again with --lora fold" +
                    (has_base ? "" : " --base DIR") + ", which adds the adapter to the weights";
        return line;
    }
    if (report.asked.is_training()) {
        const std::string word = process::shell_word(target);
        line.subject = "shardweld verify " + word;
        line.rest = has(report, "latest_checkpointed_iteration.txt")
                        ? ", then train with --load " + word
                        : ", then train from it";
        return line;
    }
    line.subject = joined(next_commands(report), " && ");
    return line;
}

/// "fp8-channel", "float32"; "as stored" where nothing is asked for.
std::string form_of(const JobOutput& output) {
    return output.is_training() ? output.form
           : output.quantise    ? std::string(facts_of(*output.quantise).name)
           : output.dtype       ? torch_name(*output.dtype)
                                : "as stored";
}

std::string hosts_text(const RunReport& report) {
    const std::set<std::string> hosts(report.hosts.begin(), report.hosts.end());
    return counted(report.n_ranks, "rank") +
           (hosts.size() > 1 ? " on " + counted(hosts.size(), "host") : "");
}

}  // namespace

std::string ModelSize::text() const {
    const std::string others = names_of(dtypes);
    std::string text = count_text(parameters > 0 ? parameters : adapter) + " parameters";
    text += encoding.empty() ? "" : ", " + encoding + " (" + counted(n_encoded, "weight") + ")";
    text += others.empty() ? "" : (encoding.empty() ? ", " : ", the others ") + others;
    return text +
           (parameters > 0 && adapter > 0
                ? "; beside it a LoRA adapter, " + count_text(adapter) + " parameters"
                : "") +
           (states > 0 ? "; beside it " + counted(states, "fp32 state") + " of the optimizer" : "");
}

ModelSize size_of_model(const plan::Targets& targets) {
    ModelSize size;
    std::map<DType, Bytes> by_dtype;
    for (const plan::Target& target : targets) {
        const Index volume = target.is_copy  ? 0
                             : target.encode ? target.encode->n_rows * target.encode->n_columns
                                             : target.volume() - target.n_zeros();
        if (!target.state.empty()) {
            size.states += target.is_copy ? 0 : 1;
            continue;
        }
        (target.file.empty() ? size.parameters : size.adapter) += volume;
        if (target.encode) {
            ++size.n_encoded;
            size.encoding = facts_of(target.encode->encoding).name;
        } else {
            by_dtype[target.dtype] += target.bytes();
        }
    }
    size.dtypes = most_first(by_dtype);
    return size;
}

Headline model_line(const std::string& model_class, const ModelSize& size) {
    const std::string name = size.parameters == 0  ? "LoRA adapter"
                             : model_class.empty() ? "no class in config.json"
                                                   : model_class;
    return {"model", name, ", " + size.text()};
}

std::vector<Headline> summary_lines(const RunReport& run, const OutputReport& report,
                                    const std::vector<Phase>& phases,
                                    const std::string& checksums) {
    const bool is_first = &report == &run.outputs.front();
    const Totals totals = totals_of(report, phases);
    std::vector<std::string> files{weights_text(report, totals.bytes)};
    append_all(files, report.side_files);
    const std::size_t n_warnings = all_warnings(run, report).size();
    const bool has_tokenizer = publish::has_tokenizer(report.side_files) ||
                               report.format == "gguf" || report.size.parameters == 0;
    std::vector<Headline> lines{
        {"wrote", report.asked.directory.string(),
         (is_first ? "" : " (" + form_of(report.asked) + ")") + " in " +
             seconds_text(totals.seconds) + ": " + joined(files, ", ") +
             (has_tokenizer ? "" : " (no tokenizer)") +
             (report.asked.keeps_report ? ", " + std::string(publish::kKeptReport) : "") + "; " +
             checksums + (n_warnings == 0 ? "" : "; " + counted(n_warnings, "warning"))}};
    if (is_first) {
        lines.push_back(next_line(report));
        if (lines.back().subject.empty()) {
            lines.pop_back();
        }
    }
    return lines;
}

std::string speed_text(const RunReport& run, const OutputReport& report,
                       const std::vector<Phase>& phases) {
    const Totals totals = totals_of(report, phases);
    Bytes peak = 0;
    for (const execute::RankResult& rank : report.ranks) {
        peak = std::max(peak, rank.peak_bytes);
    }
    return counted(report.tensors.size(), "tensor") + ", " + human_bytes(totals.bytes) + " in " +
           seconds_text(totals.seconds) + ", " + rate_text(totals.bytes, totals.seconds) +
           ", with " + hosts_text(run) + ", each at most " + human_bytes(peak) +
           " of memory; read " + human_bytes(totals.read) + " from " +
           counted(run.input.n_files, "shard file") + ", sent " + human_bytes(totals.sent);
}

std::string merged_json(const RunReport& run, const std::vector<Phase>& phases) {
    ordered_json outputs = ordered_json::array();
    std::size_t n_warnings = 0;
    for (const OutputReport& report : run.outputs) {
        outputs.push_back({{"dir", report.asked.directory.string()},
                           {"files", collect_list(report.files, &FileEntry::name)},
                           {"side_files", report.side_files},
                           {"tensors", report.tensors.size()},
                           {"bytes", totals_of(report, phases).bytes}});
        n_warnings = std::max(n_warnings, all_warnings(run, report).size());
    }
    return json_text({{"schema", 1},
                      {"ok", run.code == ErrorCode::ok},
                      {"dir", outputs.front()["dir"]},
                      {"input", {{"dir", run.input.directory}, {"format", run.input.format}}},
                      {"seconds", totals_of(run.outputs.front(), phases).seconds},
                      {"warnings", n_warnings},
                      {"outputs", outputs}});
}

std::string summary_json(const RunReport& run, const OutputReport& report,
                         const std::vector<Phase>& phases) {
    const Totals totals = totals_of(report, phases);
    const ordered_json json = {{"event", "summary"},
                               {"target", report.asked.directory.string()},
                               {"model_class", report.model_class},
                               {"parameters", report.size.parameters},
                               {"adapter_parameters", report.size.adapter},
                               {"optimizer_states", report.size.states},
                               {"dtypes", totals.dtypes},
                               {"files", report.files.size()},
                               {"bytes", totals.bytes},
                               {"seconds", totals.seconds},
                               {"side_files", report.side_files},
                               {"has_tokenizer", publish::has_tokenizer(report.side_files)},
                               {"warnings", all_warnings(run, report).size()},
                               {"next", next_commands(report)}};
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace shardweld::app
