// Any bytes as a pickle, with and without a skipped key.
#include <cstdint>
#include <span>

#include "formats/containers/pickle.hpp"

#include "expect.hpp"
#include "walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const auto bytes = std::as_bytes(std::span(data, size));
    for (const std::string_view key : {"", "all_local_plans"}) {
        fuzz::expect_errors_only([&] {
            const auto pickle = formats::Pickle::parse({bytes.begin(), bytes.end()}, key);
            fuzz::walk(pickle.root(), [](const formats::PickleValue& value) {
                static_cast<void>(value.class_name());
                static_cast<void>(value.attribute("fqn"));
                static_cast<void>(value.find("model"));
            });
        });
    }
    return 0;
}
