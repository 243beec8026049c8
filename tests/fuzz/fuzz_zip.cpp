// Any bytes as an archive; every entry must lie inside the file.
#include <cstdint>
#include <string_view>

#include "shardweld/formats/shared/zip.hpp"

#include "support/memory_file.hpp"
#include "walk.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const test::MemoryFile memory({reinterpret_cast<const char*>(data), size});
    const io::InputFile file = io::InputFile::open(memory.path());
    for (const Bytes begin : {Bytes{0}, Bytes{3}}) {
        fuzz::expect_errors_only([&] {
            if (begin > file.size()) {
                return;
            }
            const auto archive = formats::ZipArchive::read(file, begin, file.size() - begin);
            for (const auto& [name, entry] : archive.entries) {
                if (entry.offset > file.size() || entry.size > file.size() - entry.offset) {
                    __builtin_trap();
                }
            }
        });
    }
    return 0;
}
