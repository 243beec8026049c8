#include "pre_tokenizer.hpp"

#include <algorithm>
#include <vector>

namespace shardweld::app {

namespace {

/// How texts are split into words, and what llama.cpp calls that (llama-vocab.cpp).
struct PreTokenizer {
    const char* name;
    std::vector<std::string> splits;
};

const std::vector<PreTokenizer>& pre_tokenizers() {
    static const std::string contractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
    static const std::string ends = R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static const std::string cased =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
    static const std::string capitals =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";
    static const std::string others = R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    static const std::string letters = R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)";
    static const std::vector<PreTokenizer> all = {
        {"llama-bpe", {contractions + letters + R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)" + ends}},
        {"qwen2", {contractions + letters + R"(\p{N}| ?[^\s\p{L}\p{N}]+)" + ends}},
        {"qwen35",
         {contractions + R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+)" +
          ends}},
        {"gpt-2", {"gpt2"}},
        {"smollm", {R"(\p{N})", "gpt2"}},
        {"tekken", {cased + "|" + capitals + R"(|\p{N}|)" + others}},
        {"gpt-4o",
         {cased + contractions + "?|" + capitals + contractions + R"(?|\p{N}{1,3}|)" + others}},
        {"deepseek-v3",
         {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
          R"( ?[\p{P}\p{S}]+)" +
              ends}},
        {"deepseek-coder",
         {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"}},
    };
    return all;
}

/// DeepSeek V2's list of letters is long, and nobody else's.
bool is_deepseek_v2(const SplitSteps& splits) {
    return splits.size() > 1 && splits.front() == R"([\r\n])" &&
           splits[1].starts_with(R"(\s?[A-Za-zµÀ-Ö)");
}

}  // namespace

std::optional<std::string> pre_tokenizer_of(const SplitSteps& splits) {
    if (is_deepseek_v2(splits)) {
        return "deepseek-llm";
    }
    const auto& all = pre_tokenizers();
    const auto found = std::ranges::find(all, splits, &PreTokenizer::splits);
    return found == all.end() ? std::nullopt : std::optional<std::string>(found->name);
}

}  // namespace shardweld::app
