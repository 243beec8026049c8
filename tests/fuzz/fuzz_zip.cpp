// Any bytes as an archive; every entry must lie inside the file.
#include <cstdint>

#include "formats/containers/zip.hpp"
#include "io/input_file.hpp"

#include "expect.hpp"
#include "input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const io::InputFile file = io::InputFile::open(fuzz::file_with(data, size));
    for (const Bytes begin : {Bytes{0}, Bytes{3}}) {
        fuzz::expect_errors_only([&] {
            if (begin > file.size()) {
                return;
            }
            const auto archive = formats::ZipArchive::read(file, begin, file.size() - begin);
            for (const auto& [name, entry] : archive.entries) {
                fuzz::require(entry.offset <= file.size() &&
                              entry.size <= file.size() - entry.offset);
            }
        });
    }
    return 0;
}
