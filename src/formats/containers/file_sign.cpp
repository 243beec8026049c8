#include "file_sign.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "core/index.hpp"
#include "io/input_file.hpp"

namespace shardweld::formats {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnpack = "unpack it and give the directory that comes out";
constexpr std::string_view kFromModel = "give the HuggingFace model that it was made of";
constexpr std::string_view kItsDirectory = "give the directory that it lies in";

constexpr auto kSigns = std::to_array<FileSign>({
    {0, "PK\x03\x04"sv, ".zip", "a zip archive", kUnpack},
    {0, "PK\x03\x04"sv, ".npz", "an archive of NumPy's arrays", "save them as safetensors"},
    {0, "PK\x03\x04"sv, ".keras", "a Keras model", "load it with Keras and save safetensors"},
    {0, "PK\x03\x04"sv, "", "a file of torch.save, or a zip archive", kItsDirectory},
    {257, "ustar"sv, "", "a tar archive",
     "unpack it and give the directory that comes out; if torch before 0.1.10 wrote it, load and "
     "save it with a newer one"},
    {0, "\x1f\x8b"sv, "", "packed with gzip", kUnpack},
    {0, "BZh"sv, "", "packed with bzip2", kUnpack},
    {0, "\xfd\x37zXZ\0"sv, "", "packed with xz", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "", "packed with zstd", kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "", "packed with 7z", kUnpack},
    {0, "GGUF"sv, "", "a GGUF model, llama.cpp's format", kFromModel},
    {0, "|TZR|"sv, "", "a model of tensorizer",
     "load it with tensorizer's TensorDeserializer and save safetensors"},
    {0, "\x89HDF\r\n\x1a\n"sv, "", "an HDF5 file", "give its directory, with --backend hdf5"},
    {0, "\x0c\xdb:*"sv, "", "part of TensorStore's store, as JAX programs write it",
     "load it with the JAX program that saved it, and write a HuggingFace model there"},
    {0, "version https://git-lfs"sv, "", "a pointer of Git LFS, not the file itself",
     "fetch the files with git lfs pull"},
    {8, "{"sv, ".safetensors", "a file of safetensors", kItsDirectory},
});

}  // namespace

const FileSign* sign_of(std::string_view head, std::string_view name) {
    return find_where(kSigns, [&](const FileSign& one) {
        return name.ends_with(one.ending) && head.size() > one.offset &&
               head.substr(one.offset).starts_with(one.bytes);
    });
}

const FileSign* sign_of(const io::InputFile& file) {
    constexpr Bytes kLooked = 512;
    std::string head(std::min(kLooked, file.size()), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    return sign_of(head, file.path().filename().string());
}

}  // namespace shardweld::formats
