// What a GGUF file says of a model as a whole, by gguf-py 0.19: utility.py (size_label),
// metadata.py (id_to_title) and gguf_writer.py (get_total_parameter_count).
#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.hpp"
#include "outputs/gguf.hpp"

namespace shardweld::outputs {

namespace {

bool is_lower(char letter) {
    return letter >= 'a' && letter <= 'z';
}
bool is_upper(char letter) {
    return letter >= 'A' && letter <= 'Z';
}
bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

/// "v1.5", "7b": versions and sizes keep their letters.
bool is_number_like(const std::string& word) {
    if (is_digit(word.front())) {
        return true;
    }
    return word.size() > 1 && word[0] == 'v' && is_digit(word[1]) && is_digit(word.back()) &&
           !has_part(word, "..") && std::all_of(word.begin() + 1, word.end(), [](char letter) {
               return is_digit(letter) || letter == '.';
           });
}

/// A word in small letters begins with a large one, and so does what follows a digit or a sign.
std::string titled(std::string word) {
    if (std::ranges::any_of(word, is_upper) || std::ranges::none_of(word, is_lower) ||
        is_number_like(word)) {
        return word;
    }
    bool is_inside = false;
    for (char& letter : word) {
        const bool is_letter = is_lower(letter);
        if (is_letter && !is_inside) {
            letter = static_cast<char>(letter - 'a' + 'A');
        }
        is_inside = is_letter;
    }
    return word;
}

/// Two digits at least: "6.7B", "128x1.8B".
std::string rounded_count(double count) {
    constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
        {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {0, "K"}}};
    constexpr std::array<double, 4> kScales = {1e-12, 1e-9, 1e-6, 1e-3};
    std::size_t at = 0;
    while (kUnits[at].first > 0 && count <= kUnits[at].first) {
        ++at;
    }
    const double scaled = count * kScales[at];
    const double whole = std::nearbyint(scaled);
    const int n_places = whole >= 10 ? 0 : whole >= 1 ? 1 : 2;
    return formatted("%.*f%s", n_places, scaled, kUnits[at].second);
}

}  // namespace

std::string gguf_title(std::string_view name_or_path) {
    std::string_view name = name_or_path;
    if (!has_part(name, ' ') && has_part(name, '/')) {
        name.remove_prefix(name.find('/') + 1);
    }
    std::string title;
    std::string word;
    const auto take = [&] {
        title += word.empty() ? "" : (title.empty() ? "" : " ") + titled(word);
        word.clear();
    };
    for (const char letter : name) {
        if (letter == '-' || letter == ' ') {
            take();
        } else {
            word += letter;
        }
    }
    take();
    return title;
}

std::string gguf_size_label(std::span<const GgufSize> tensors) {
    Index shared = 0;
    Index expert = 0;
    Index n_experts = 0;
    Index n_stacks = 0;
    for (const GgufSize& tensor : tensors) {
        if (tensor.n_experts == 0) {
            shared += tensor.n_elements;
            continue;
        }
        expert += tensor.n_elements / tensor.n_experts;
        n_experts += tensor.n_experts;
        ++n_stacks;
    }
    const std::string size = rounded_count(static_cast<double>(shared + expert));
    return n_stacks == 0 ? size : std::to_string(n_experts / n_stacks) + "x" + size;
}

}  // namespace shardweld::outputs
