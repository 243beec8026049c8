// Any bytes as a torch file; every tensor must lie inside the file.
#include <cstdint>
#include <string_view>

#include "shardweld/formats/shared/torch_file.hpp"

#include "support/memory_file.hpp"
#include "walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const test::MemoryFile memory({reinterpret_cast<const char*>(data), size});
    const io::InputFile file = io::InputFile::open(memory.path());
    fuzz::expect_errors_only([&] {
        const auto torch_file = formats::TorchFile::read(file);
        static_cast<void>(torch_file.storage_bytes());
        fuzz::walk(torch_file.root(), [&](const formats::PickleValue& value) {
            fuzz::expect_errors_only([&] {
                const auto tensor = torch_file.tensor(value);
                if (!tensor) {
                    return;
                }
                static_cast<void>(tensor->is_contiguous());
                const bool is_inside =
                    tensor->storage_offset <= file.size() &&
                    tensor->storage_bytes <= file.size() - tensor->storage_offset;
                if (!is_inside) {
                    __builtin_trap();
                }
            });
        });
    });
    return 0;
}
