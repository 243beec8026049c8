// Any text as a recipe or dialect, up to its lines; now and then in a library with those built in,
// which takes much longer.
#include <cstdint>
#include <string>

#include "shardweld/models/recipe.hpp"

#include "../../src/models/check.hpp"
#include "../../src/models/declaration.hpp"
#include "../../src/models/inherit.hpp"
#include "expect.hpp"

namespace {

using namespace shardweld;

constexpr std::uint32_t kLoadEvery = 4096;

std::uint32_t hash_of(const std::string& text) {
    std::uint32_t hash = 2166136261U;
    for (const char c : text) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    }
    return hash;
}

void check(const std::string& text) {
    const models::RecipeFile source{"fuzz.recipe", text};
    const models::FullDeclaration whole = models::inherit({}, models::parse_source(source));
    models::check_lines(whole.lines);
    models::check_lines(models::expand(whole, whole.blocks));
    models::check_lines(models::expand(whole, whole.modules));
    if (hash_of(text) % kLoadEvery == 0) {
        static_cast<void>(models::RecipeLibrary::load({source}));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::expect_errors_only([&] { check({reinterpret_cast<const char*>(data), size}); });
    return 0;
}
