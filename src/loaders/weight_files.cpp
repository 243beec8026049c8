// Which files of weights each loader reads, and what it finds in them: of several files that lie
// beside each other loaders take others, and an index binds only some of them.
// Sources: transformers 5.24 modeling_utils (_get_resolved_checkpoint_files) and utils/hub
// (get_checkpoint_shard_files), run; vLLM 0.33 model_loader/default_loader and weight_utils, SGLang
// 0.5.23 model_loader/loader and weight_utils, TGI utils/hub and utils/weights, read.
#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

constexpr const char* kCopyAgain = "merge it again, or copy it again from where it was written";

bool is_of_mistral(const std::string& name) {
    return name.starts_with("consolidated") && name.ends_with(".safetensors");
}

/// Chooses as one loader does.
class Choice {
  public:
    Choice(const Directory& directory, Loader loader, std::string_view rule)
        : directory_(directory), loader_(loader), findings_(rule, found_.findings) {
        for (const WeightFile& file : directory.weights) {
            names_.insert(file.name);
            is_pickled_ = is_pickled_ || file.name.ends_with(".bin");
        }
        is_pickled_ = is_pickled_ && std::ranges::none_of(names_, [](const std::string& name) {
                          return name.ends_with(".safetensors");
                      });
        whole_file_ = is_pickled_ ? "pytorch_model.bin" : "model.safetensors";
        index_file_ = whole_file_ + ".index.json";
    }

    Weights run(const json& config) {
        if (loader_ == Loader::transformers) {
            choose_for_transformers(config);
        } else if (loader_ == Loader::tgi) {
            choose_for_tgi();
        } else {
            choose_for_servers();
        }
        if (chosen_.empty() && found_.findings.empty()) {
            look_for_other_weights();
        }
        if (is_pickled_ && !chosen_.empty()) {
            findings_.doubtful("weights are pickles (" + printable(*chosen_.begin()) +
                                   "), which loaders may refuse, or convert first",
                               "write safetensors with shardweld merge --backend hf");
        }
        std::ranges::for_each(chosen_, [&](const std::string& name) { take(name); });
        if (directory_.index && is_by_index_) {
            compare_with_index();
        }
        return std::move(found_);
    }

  private:
    /// model.safetensors goes before the index, and all that neither names is left alone.
    void choose_for_transformers(const json& config) {
        const auto named = config.find("transformers_weights");
        if (directory_.files.contains("adapter_config.json")) {
            tell_adapter();
        }
        if (named != config.end() && named->is_string()) {
            choose_named(named->get<std::string>());
        } else if (names_.contains(whole_file_)) {
            chosen_ = {whole_file_};
            look_for_index_that_is_not_read();
        } else if (directory_.index) {
            choose_by_index();
            if (directory_.index->fault.empty() && !directory_.index->has_metadata) {
                findings_.fatal(index_file_ + " has no `metadata` that is an object",
                                "transformers refuses it: write \"metadata\": {}");
            }
        } else if (!names_.empty() && found_.findings.empty()) {
            findings_.fatal(std::string("there is neither ") + whole_file_ + " nor " + index_file_ +
                                ", only " + listed({names_.begin(), names_.end()}),
                            "copy the index too, or rename a single file to model.safetensors");
        }
    }

    /// With PEFT installed an adapter's settings go before all weights.
    void tell_adapter() {
        const bool is_alone = !names_.contains(whole_file_) && !directory_.index;
        findings_.add(
            is_alone,
            is_alone ? "the directory holds an adapter (adapter_config.json) and no model"
                     : "adapter_config.json lies beside the weights: transformers with PEFT loads "
                       "the base model that it names, and the adapter",
            is_alone ? "fold it into its base: shardweld merge DIR OUT --base MODEL --lora fold"
                     : "remove it if the weights are whole");
    }

    void choose_named(const std::string& name) {
        if (names_.contains(name)) {
            chosen_ = {name};
        } else {
            found_.is_whole = false;
            findings_.doubtful("config.json names " + printable(name) +
                                   " in transformers_weights, which is not checked",
                               "try it with transformers itself");
        }
    }

    void look_for_index_that_is_not_read() {
        const bool names_others =
            directory_.index &&
            std::ranges::any_of(directory_.index->file_of,
                                [&](const auto& one) { return one.second != whole_file_; });
        if (names_others) {
            findings_.fatal(whole_file_ + " lies beside the files that " + index_file_ +
                                " names: a stale file, which is loaded in their place",
                            std::string("remove ") + whole_file_ + ", or the index and its files");
        }
    }

    /// Mistral's own files go before all others in vLLM; else all files, or those of an index.
    void choose_for_servers() {
        if (loader_ == Loader::vllm && std::ranges::any_of(names_, is_of_mistral)) {
            take_mistrals_own();
        } else if (directory_.index) {
            choose_by_index();
        } else {
            chosen_ = names_;
            if (loader_ == Loader::sglang && names_.size() == 2) {
                chosen_.erase("consolidated.safetensors");
            }
        }
    }

    /// Mistral's own names are not checked; how many elements they have is.
    void take_mistrals_own() {
        found_.is_whole = false;
        double own = 0;
        double others = 0;
        std::string name;
        for (const WeightFile& file : directory_.weights) {
            const bool is_own = is_of_mistral(file.name);
            name = is_own ? file.name : name;
            (is_own ? own : others) += elements_of(file);
            if (is_own && !file.fault.empty()) {
                findings_.fatal(printable(file.name) + ": " + file.fault, kCopyAgain);
            }
        }
        const std::string text = "vLLM loads " + printable(name) + " and no other file of weights";
        if (own < 0.5 * others) {
            findings_.fatal(text + ", but it has the smaller part of the elements",
                            "remove it, or give --load-format hf");
        } else {
            findings_.doubtful(text + "; its names are not checked",
                               "give --load-format hf for the other files, or remove it");
        }
    }

    static double elements_of(const WeightFile& file) {
        double sum = 0;
        for (const auto& [name, tensor] : file.tensors) {
            sum += std::accumulate(
                tensor.shape.begin(), tensor.shape.end(), 1.0,
                [](double product, Index extent) { return product * static_cast<double>(extent); });
        }
        return sum;
    }

    /// All files but those of trainers; an index is not read.
    void choose_for_tgi() {
        std::ranges::copy_if(names_, std::inserter(chosen_, chosen_.end()),
                             [](const std::string& name) {
                                 constexpr std::array<std::string_view, 3> kWords = {
                                     "arguments", "args", "training"};
                                 return std::ranges::none_of(kWords, [&](std::string_view word) {
                                     return name.find(word) != std::string::npos;
                                 });
                             });
    }

    void choose_by_index() {
        const WeightIndex& index = *directory_.index;
        if (!index.fault.empty()) {
            findings_.fatal(index.fault, kCopyAgain);
            found_.is_whole = false;
            return;
        }
        is_by_index_ = true;
        std::set<std::string> missing;
        for (const auto& [tensor, file] : index.file_of) {
            (names_.contains(file) ? chosen_ : missing).insert(file);
        }
        if (!missing.empty()) {
            found_.is_whole = false;
            findings_.fatal(listed({missing.begin(), missing.end()}) +
                                (missing.size() == 1 ? " is" : " are") + " missing, though " +
                                index_file_ + " names " + (missing.size() == 1 ? "it" : "them"),
                            "copy all files of the model");
        }
    }

    void look_for_other_weights() {
        found_.is_whole = false;
        const auto at = std::ranges::find_if(directory_.files, [](const std::string& name) {
            return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".index.json");
        });
        if (at != directory_.files.end() && loader_ == Loader::transformers) {
            findings_.fatal(
                "there is neither model.safetensors nor pytorch_model.bin, nor an index of one, "
                "only " +
                    printable(*at),
                "transformers takes no other names: rename it if it is the model");
        } else if (at != directory_.files.end()) {
            findings_.doubtful(
                "weights are not safetensors (" + printable(*at) + "), and not checked",
                "write safetensors with shardweld merge --backend hf");
        } else {
            findings_.fatal("there is no file of weights", "merge it again, or copy all files");
        }
    }

    void take(const std::string& name) {
        for (const WeightFile& file : directory_.weights) {
            if (file.name != name) {
                continue;
            }
            if (!file.fault.empty()) {
                findings_.fatal(printable(name) + ": " + file.fault, kCopyAgain);
                found_.is_whole = false;
            }
            if (!file.unknown.empty()) {
                findings_.doubtful(printable(name) + ": " + file.unknown + ", not checked",
                                   "try it with the loader itself");
                found_.is_whole = false;
            }
            for (const auto& [tensor, stored] : file.tensors) {
                add(tensor, stored, name);
            }
        }
    }

    void add(const std::string& tensor, const StoredTensor& stored, const std::string& file) {
        const auto [other, is_new] = file_of_.emplace(tensor, file);
        if (!is_new && !is_told_twice_) {
            is_told_twice_ = true;
            findings_.fatal(
                "tensor " + printable(tensor) + " is in " + printable(other->second) + " and in " +
                    printable(file),
                loader_ == Loader::tgi
                    ? "TGI refuses it: remove the file that is not the model's"
                    : "one of them is loaded over the other: remove the file that is not the "
                      "model's");
        }
        found_.tensors.insert_or_assign(tensor, stored);
    }

    /// These loaders go by the files that an index names, not by what it says is in them.
    void compare_with_index() {
        const WeightIndex& index = *directory_.index;
        std::vector<std::string> absent;
        for (const auto& [tensor, file] : index.file_of) {
            if (!found_.tensors.contains(tensor) && names_.contains(file)) {
                absent.push_back(printable(tensor) + " in " + printable(file));
            }
        }
        if (absent.empty() || !found_.is_whole) {
            return;
        }
        const std::string text =
            index_file_ + " names tensors that are not there: " + first(absent);
        if (directory_.expected.empty()) {
            findings_.fatal(text, "they would be random: merge it again, or copy all files");
        } else {
            findings_.doubtful(text, "only tensors that are in the files are loaded");
        }
    }

    static std::string first(const std::vector<std::string>& texts) {
        return texts.front() +
               (texts.size() > 1 ? " and " + std::to_string(texts.size() - 1) + " more" : "");
    }

    const Directory& directory_;
    Loader loader_;
    Weights found_;
    Findings findings_;
    std::set<std::string> names_;  ///< of files
    bool is_pickled_ = false;
    std::string whole_file_;
    std::string index_file_;
    std::set<std::string> chosen_;  ///< of those, what is read
    bool is_by_index_ = false;
    std::map<std::string, std::string> file_of_;
    bool is_told_twice_ = false;
};

}  // namespace

Weights weights_for(const Directory& directory, const nlohmann::json& config, Loader loader,
                    std::string_view rule) {
    return Choice(directory, loader, rule).run(config);
}

}  // namespace shardweld::loaders
