// Any text as sizes, numbers, globs and names, and its lines as a command line. What is printed
// must hold nothing that a terminal obeys, and the order of names must be an order.
#include <algorithm>
#include <cstdint>
#include <string>

#include "app/cli/parse_options.hpp"
#include "app/settings/job.hpp"
#include "core/text.hpp"

#include "expect.hpp"

namespace {

using namespace shardweld;

void check_text(std::string_view text) {
    static_cast<void>(parse_size(text));
    if (const auto number = parse_index(text)) {
        fuzz::require(*number >= 0);
    }
    const std::string shown = printable(text);
    fuzz::require(is_utf8(shown) && printable(shown, shown.size()) == shown);
    fuzz::require(std::none_of(shown.begin(), shown.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    }));
}

void check_order(std::string_view a, std::string_view b, std::string_view c) {
    fuzz::require(!natural_less(a, a) && !(natural_less(a, b) && natural_less(b, a)));
    fuzz::require(a == b || natural_less(a, b) || natural_less(b, a));
    fuzz::require(!natural_less(a, b) || !natural_less(b, c) || natural_less(a, c));
    static_cast<void>(glob_matches(a, b));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<std::string> words;
    for (const std::string_view word : split(text, '\n')) {
        check_text(word);
        words.emplace_back(word);
    }
    const auto word = [&](std::size_t i) {
        return i < words.size() ? std::string_view(words[i]) : std::string_view();
    };
    check_order(word(1), word(2), word(3));
    fuzz::expect_errors_only([&] { static_cast<void>(app::parse_options(words)); });
    return 0;
}
