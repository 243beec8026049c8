// The scans of a save's files put together: tensors of one name become one, which all files must
// tell alike and whose elements must all be there, once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "layout/cover.hpp"
#include "shardweld/error.hpp"

#include "file_scan.hpp"
#include "hints.hpp"

namespace shardweld::formats {

/// Whether each file states a tensor's whole shape, or only that it reaches so far.
enum class Shapes { stated, reached };

/// The errors of tensors that files tell differently, or whose pieces do not hold each element
/// once, where formats differ in them.
struct AssemblyErrors {
    ErrorCode gap = ErrorCode::mismatch;
    ErrorCode overlap = ErrorCode::mismatch;
    ErrorCode irregular = ErrorCode::unsupported;  ///< too many pieces, in no order that shows it
    const char* cover_hint = kOneSave;
    const char* hint = kOneSave;  ///< where files tell a tensor differently
};

using layout::CoverKind;

/// The first fault in how pieces cover a tensor.
struct CoverFault {
    CoverKind kind = CoverKind::exact;
    Index held = 0;          ///< elements in pieces numbered 0; those that overlap count twice
    std::string where;       ///< "between [0, 0] and [4, 8]", "[4] at [0] and [2] at [3]"
    std::string first_box;   ///< of an overlap: "[4] at [0]"
    std::string second_box;  ///< of an overlap
    std::uint32_t first_file = 0;   ///< of an overlap
    std::uint32_t second_file = 0;  ///< of an overlap
};

/// Whether the pieces numbered 0 hold every element of the tensor once.
CoverFault find_cover_fault(const Tensor& tensor);

/// Error where they do not; `files` are those of the pieces.
void require_cover(const Tensor& tensor, const CoverFault& fault, const std::vector<File>& files,
                   const AssemblyErrors& errors);

/// Sorts pieces by their boxes, then by file, and numbers those of one box in different files: 0 is
/// the lowest file's. The same box twice in one file is no copy but an overlap.
void number_replicas(std::vector<Piece>& pieces);

enum class Unused { kept, dropped };
/// Sorts the files naturally, each path once with the largest of its sizes, and renumbers the
/// pieces. `unused`: what becomes of files in which no piece lies.
void order_files(Catalogue& catalogue, Unused unused);

/// Moves into `out` what a scan says beside its tensors and files: statements, globals left inert.
void take_said(Catalogue& scan, Catalogue& out);

/// All files' tensor of one name.
struct Assembled {
    Tensor tensor;
    std::vector<std::uint32_t> files;  ///< that have it, ascending
    bool is_shard = false;  ///< plain, and joined by the dialect: its shape is not compared
};

/// Joins the scans of a checkpoint's files into one catalogue.
class Assembler {
  public:
    /// `out` must outlive it.
    explicit Assembler(Catalogue& out, const AssemblyErrors& errors = {},
                       Shapes shapes = Shapes::stated)
        : out_(out), errors_(errors), shapes_(shapes) {}

    /// Moves into the catalogue what every scan has: its files, what take_said says, rows left
    /// aside. Its pieces get their files' numbers in the catalogue, of which the first is given.
    std::uint32_t add_scan(Catalogue& scan);

    [[nodiscard]] IgnoredRows& ignored() { return ignored_; }

    /// Adds a file's tensor to those of its name. Error(mismatch) where it is of
    /// another kind, dtype, shape or placement.
    Assembled& add(Tensor tensor, std::uint32_t file, bool is_shard = false);
    /// add's check alone, and that of tensors whose files nobody names.
    void require_same(const Assembled& known, const Tensor& more, std::uint32_t file,
                      bool is_shard = false) const;
    void require_same(const Tensor& known, const Tensor& more) const;

    /// Requires that pieces in the catalogue's files cover a tensor (formats::require_cover).
    void require_cover(const Tensor& tensor, const CoverFault& fault) const {
        formats::require_cover(tensor, fault, out_.files, errors_);
    }

    /// Moves the tensors, by name, and the rows left aside into the catalogue.
    void finish();

    std::map<std::string, Assembled> tensors;  ///< by name

  private:
    Catalogue& out_;
    AssemblyErrors errors_;
    Shapes shapes_;
    IgnoredRows ignored_;
};

/// What one place says of the optimizer.
struct ToldOptimizer {
    std::string place;  ///< for people: the file's name
    Optimizer optimizer;
};

/// What several places say of the optimizer, in whose pieces files have the numbers of `out`:
/// states become one each, as the Assembler makes one tensor of several. Error as of
/// Assembler::add; Error(mismatch) where steps, groups or the scheduler's settings are not the
/// same.
void join_optimizers(Shapes shapes, std::vector<ToldOptimizer> told, Catalogue& out);

}  // namespace shardweld::formats
