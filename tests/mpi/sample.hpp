// A made-up checkpoint in real files, and what a merge of it must give. Knows plans; nothing of
// what is tested with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::test {

namespace fs = std::filesystem;
using layout::Axis;
using layout::Patch;

/// A made-up checkpoint: tensors cut by rows or columns over files, some transposed, one held
/// twice.
class Sample {
  public:
    explicit Sample(mpi::Comm& comm) : comm_(comm) {
        std::string name(fs::temp_directory_path() / "shardweld-run-XXXXXX");
        if (comm.rank() == 0) {
            EXPECT_NE(mkdtemp(name.data()), nullptr);
        }
        const auto shared = comm.broadcast(to_bytes(name), 0);
        directory_ = std::string(reinterpret_cast<const char*>(shared.data()), shared.size());
    }
    ~Sample() {
        comm_.barrier();
        if (comm_.rank() == 0) {
            fs::remove_all(directory_);
        }
    }
    Sample(const Sample&) = delete;
    Sample& operator=(const Sample&) = delete;
    Sample(Sample&&) = delete;
    Sample& operator=(Sample&&) = delete;

    static std::vector<std::byte> to_bytes(const std::string& text) {
        const auto bytes = std::as_bytes(std::span(text));
        return {bytes.begin(), bytes.end()};
    }

    /// Adds target `name` of [rows, columns] bf16 elements cut into n_files pieces along `dim`;
    /// `is_transposed`: stored column by column.
    void add(const std::string& name, Index rows, Index columns, std::size_t dim, Index n_files,
             bool is_transposed) {
        plan::Target target;
        target.name = name;
        target.stored = target.dtype = DType::bf16;
        target.shape = {rows, columns};
        const Patch whole = layout::dense_shape(target.shape);
        for (Index file = 0; file < n_files; ++file) {
            const Index extent = target.shape[dim];
            const layout::Range range{extent * file / n_files,
                                      extent * (file + 1) / n_files - extent * file / n_files};
            layout::Box part{{0, rows}, {0, columns}};
            part[dim] = range;
            Patch piece = *layout::clip(whole, part);
            piece.offset = 0;
            const Index n_rows = piece.axes[0].extent;
            const Index n_columns = piece.axes[1].extent;
            piece.axes[0].stride = is_transposed ? 1 : n_columns;
            piece.axes[1].stride = is_transposed ? n_rows : 1;
            target.operands.push_back({static_cast<std::uint32_t>(file),
                                       append(file, piece, target),
                                       *layout::overlap(piece, whole)});
        }
        targets_.push_back(std::move(target));
    }

    /// The element of a target, as stored: different everywhere.
    static std::uint16_t element(std::size_t target, Index row, Index column) {
        return static_cast<std::uint16_t>(target * 7919 + static_cast<std::size_t>(row) * 131 +
                                          static_cast<std::size_t>(column));
    }

    void write_files() {
        if (comm_.rank() == 0) {
            for (std::size_t file = 0; file < data_.size(); ++file) {
                std::ofstream out(directory_ / ("shard" + std::to_string(file)), std::ios::binary);
                out.write(reinterpret_cast<const char*>(data_[file].data()),
                          static_cast<std::streamsize>(data_[file].size() * 2));
            }
        }
        for (std::size_t file = 0; file < data_.size(); ++file) {
            files_.push_back({"shard" + std::to_string(file), data_[file].size() * 2});
        }
        std::sort(targets_.begin(), targets_.end(), [](const auto& a, const auto& b) {
            return natural_less(a.name.text(), b.name.text());
        });
        comm_.barrier();
    }

    [[nodiscard]] std::vector<plan::Target> targets() const { return targets_; }
    [[nodiscard]] const std::vector<catalogue::File>& files() const { return files_; }
    [[nodiscard]] const fs::path& directory() const { return directory_; }
    std::vector<std::vector<std::uint16_t>>& data() { return data_; }

    /// Runs and returns all output files' bytes in the order of their names.
    std::string merge(plan::Plan plan, execute::Result& result) {
        return merge(std::move(plan), result, files_);
    }
    /// The same of files that others have put into its directory.
    std::string merge(plan::Plan plan, execute::Result& result,
                      const std::vector<catalogue::File>& files) {
        const fs::path out = directory_ / "out";
        if (comm_.rank() == 0) {
            fs::remove_all(out);
            fs::create_directory(out);
        }
        comm_.barrier();
        execute::create_files(comm_, plan, out);
        execute::RunOptions options;
        options.digests = true;
        result = execute::run(comm_, plan, {directory_, &files, 2}, out, options);
        comm_.barrier();
        std::string bytes;
        for (const outputs::PlacedFile& file : plan.placement.files) {
            bytes += content_of(out / file.name);
        }
        comm_.barrier();
        return bytes;
    }

    /// What merge() must return: header and elements one by one.
    [[nodiscard]] std::string expected(const plan::Plan& plan) const {
        std::string bytes;
        for (const outputs::PlacedFile& file : plan.placement.files) {
            bytes += file.header;
            for (const std::uint32_t at : file.tensors) {
                const plan::Target& target = plan.targets[at];
                const auto id = static_cast<std::size_t>(target.name.text().back() - 'a');
                std::vector<std::uint16_t> values;
                for (Index row = 0; row < target.shape[0]; ++row) {
                    for (Index column = 0; column < target.shape[1]; ++column) {
                        values.push_back(element(id, row, column));
                    }
                }
                bytes.append(reinterpret_cast<const char*>(values.data()), 2 * values.size());
            }
        }
        return bytes;
    }

  private:
    /// Stores a piece at the end of a file; returns where.
    Bytes append(Index file, const Patch& piece, const plan::Target& target) {
        data_.resize(std::max(data_.size(), static_cast<std::size_t>(file) + 1));
        auto& data = data_[static_cast<std::size_t>(file)];
        const std::size_t base = data.size();
        data.resize(base + static_cast<std::size_t>(piece.volume()));
        const auto id = static_cast<std::size_t>(target.name.text().back() - 'a');
        const Axis& rows = piece.axes[0];
        const Axis& columns = piece.axes[1];
        for (Index i = 0; i < rows.extent; ++i) {
            for (Index j = 0; j < columns.extent; ++j) {
                data[base + static_cast<std::size_t>(i * rows.stride + j * columns.stride)] =
                    element(id, rows.lo + i, columns.lo + j);
            }
        }
        return base * 2;
    }

    mpi::Comm& comm_;
    fs::path directory_;
    std::vector<plan::Target> targets_;
    std::vector<std::vector<std::uint16_t>> data_;
    std::vector<catalogue::File> files_;
};

inline void fill(Sample& sample) {
    sample.add("rows_a", 70, 30, 0, 3, false);
    sample.add("columns_b", 64, 48, 1, 3, false);
    sample.add("transposed_c", 50, 20, 0, 2, true);
    sample.add("large_d", 3000, 1024, 1, 4, false);
    sample.add("one_e", 1, 1, 0, 1, false);
    sample.write_files();
}

struct Way {
    plan::Strategy strategy;
    bool is_ahead;  ///< a thread reads the next round
};
inline constexpr std::array<Way, 4> kWays = {{{plan::Strategy::direct, false},
                                              {plan::Strategy::direct, true},
                                              {plan::Strategy::collective, false},
                                              {plan::Strategy::collective, true}}};

}  // namespace shardweld::test
