// Any bytes as a torch file, a zip archive or one from before torch 1.6; every tensor must lie
// inside the file.
#include <cstdint>

#include "formats/containers/torch_file.hpp"
#include "io/input_file.hpp"

#include "expect.hpp"
#include "input_file.hpp"
#include "walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const io::InputFile file = io::InputFile::open(fuzz::file_with(data, size));
    fuzz::expect_errors_only([&] {
        const auto torch_file = formats::TorchFile::read(file);
        static_cast<void>(torch_file.storage_bytes());
        fuzz::walk(torch_file.root(), [&](const formats::PickleValue& value) {
            fuzz::expect_errors_only([&] {
                const auto tensor = torch_file.tensor(value);
                if (tensor) {
                    static_cast<void>(tensor->is_contiguous());
                    fuzz::require(tensor->storage_offset <= file.size() &&
                                  tensor->storage_bytes <= file.size() - tensor->storage_offset);
                }
            });
        });
    });
    return 0;
}
