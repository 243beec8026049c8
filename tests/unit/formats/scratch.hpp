// Temporary directories, fixtures and errors for the tests of formats.
// Knows nothing of what the tests check.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/dtype.hpp"
#include "io/input_file.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace fs = std::filesystem;

/// A directory that is removed at the end of its scope.
class Scratch {
  public:
    Scratch() {
        static int count = 0;
        path_ = fs::temp_directory_path() /
                ("shardweld_formats_" + std::to_string(getpid()) + "_" + std::to_string(count++));
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    Scratch(Scratch&&) = delete;
    Scratch& operator=(Scratch&&) = delete;
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }

    [[nodiscard]] const fs::path& path() const { return path_; }
    /// Writes a file, with the directories it needs.
    void file(const std::string& name, const std::string& text = "") const {
        fs::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    void directory(const std::string& name) const { fs::create_directories(path_ / name); }
    /// Copies a fixture's source/ tree here.
    void copy(const fs::path& from, const std::string& to = "") const {
        fs::create_directories(path_ / to);
        fs::copy(from, path_ / to, fs::copy_options::recursive);
    }

  private:
    fs::path path_;
};

inline fs::path fixture(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / "megatron" / name;
}

/// Code and text of the error that `action` throws; ok and "" when it throws none.
inline std::pair<ErrorCode, std::string> error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return {error.code(), error.full_text()};
    }
    return {ErrorCode::ok, ""};
}

inline void expect_error(ErrorCode code, const std::string& part,
                         const std::function<void()>& action) {
    const auto [got, text] = error_of(action);
    EXPECT_EQ(name_of(got), name_of(code)) << text;
    EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

/// The elements of a patch as bytes, row by row.
inline std::vector<std::byte> elements(const fs::path& file, Bytes base, const layout::Patch& patch,
                                       DType dtype) {
    const auto input = io::InputFile::open(file);
    std::vector<std::byte> out;
    std::vector<Index> at(patch.axes.size(), 0);
    for (Index i = 0; i < patch.volume(); ++i) {
        Index address = patch.offset;
        for (std::size_t k = 0; k < at.size(); ++k) {
            address += at[k] * patch.axes[k].stride;
        }
        std::vector<std::byte> element(size_of(dtype));
        input.read_at(base + static_cast<Bytes>(address) * size_of(dtype), element);
        out.insert(out.end(), element.begin(), element.end());
        for (std::size_t k = at.size(); k-- > 0 && ++at[k] == patch.axes[k].extent;) {
            at[k] = 0;
        }
    }
    return out;
}

}  // namespace shardweld::formats
