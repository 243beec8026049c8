#include "known_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>
#include <string>

namespace shardweld::loaders {

namespace {

using Words = std::set<std::string, std::less<>>;

/// "qwen3_moe" and "Qwen3Moe" as "qwen3moe".
std::string plain(std::string_view word) {
    std::string letters;
    for (const char letter : word) {
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
            letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        }
    }
    return letters;
}

Words words_of(std::string_view list, bool is_plain = false) {
    std::istringstream stream{std::string(list)};
    Words words;
    for (std::string word; stream >> word;) {
        words.insert(is_plain ? plain(word) : word);
    }
    return words;
}

/// "Qwen3MoeForCausalLM" as "Qwen3Moe".
std::string_view without_head(std::string_view name) {
    for (std::size_t at = name.find("For"); at != std::string_view::npos;
         at = name.find("For", at + 1)) {
        if (at + 3 < name.size() && std::isupper(static_cast<unsigned char>(name[at + 3])) != 0) {
            return name.substr(0, at);
        }
    }
    for (const std::string_view head : {"LMHeadModel", "DoubleHeadsModel", "ChatModel", "Model"}) {
        if (name.ends_with(head)) {
            return name.substr(0, name.size() - head.size());
        }
    }
    return name;
}

const Words& transformers_types() {
    static const Words words = words_of(kTransformersTypes);
    return words;
}

bool is_transformers_class(std::string_view name) {
    static const Words types = words_of(kTransformersTypes, true);
    static const Words classes = words_of(kTransformersClasses);
    return classes.contains(name) || types.contains(plain(without_head(name)));
}

/// "" for a field that no type is known to refuse null for.
std::string letter_of_null(std::string_view field) {
    std::istringstream stream{std::string(kNullFields)};
    std::string letter;
    for (std::string name; stream >> letter >> name;) {
        if (name == field) {
            return letter;
        }
    }
    return "";
}

}  // namespace

std::map<std::string, std::string, std::less<>> keys_of_words(std::string_view list) {
    std::map<std::string, std::string, std::less<>> keys;
    std::istringstream stream{std::string(list)};
    std::string key;
    for (std::string word; stream >> word;) {
        if (word.ends_with(':')) {
            key = word.substr(0, word.size() - 1);
        } else {
            keys[word] = key;
        }
    }
    return keys;
}

bool refuses_null(std::string_view type, std::string_view field) {
    static const auto refusals = keys_of_words(kNullRefusals);  // letters of fields
    const auto found = refusals.find(type);
    const std::string letter = letter_of_null(field);
    return found != refusals.end() && !letter.empty() &&
           found->second.find(letter) != std::string::npos;
}

bool knows_type(Loader loader, std::string_view type) {
    static const Words vllm = words_of(kVllmTypes);
    static const Words sglang = words_of(kSglangTypes);
    return transformers_types().contains(type) || (loader == Loader::vllm && vllm.contains(type)) ||
           (loader == Loader::sglang && sglang.contains(type));
}

bool knows_class(Loader loader, std::string_view name) {
    static const Words vllm = words_of(kVllmClasses);
    static const Words sglang = words_of(kSglangClasses);
    static const Words gguf = words_of(kGgufArchitectures);
    if (loader == Loader::llama_cpp) {
        return gguf.contains(name);
    }
    return is_transformers_class(name) || (loader == Loader::vllm && vllm.contains(name)) ||
           (loader == Loader::sglang && sglang.contains(name));
}

}  // namespace shardweld::loaders
