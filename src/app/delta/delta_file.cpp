#include "delta_file.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "io/digest_stream.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "layout/patch.hpp"
#include "outputs/safetensors/header.hpp"
#include "shardweld/error.hpp"

#include "xor_stream.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kLeastPart = Bytes{64} << 20U;
constexpr Bytes kMostParts = 128;
constexpr Bytes kPiece = Bytes{1} << 20U;
constexpr Bytes kMultiple = 8;  // headers' sizes, as the safetensors library has them
constexpr Bytes kWidestNumber = std::numeric_limits<Bytes>::max();

Bytes size_of_tensor(const catalogue::Tensor& tensor) {
    return tensor.pieces.front().storage_bytes;
}

/// The tensors of one model, whose files are opened when they are needed.
class TensorBytes {
  public:
    TensorBytes(const fs::path& directory, const WrittenModel& model)
        : directory_(directory), model_(model) {}

    void read(const catalogue::Tensor& tensor, Bytes offset, std::span<std::byte> out) {
        const catalogue::Piece& piece = tensor.pieces.front();
        file(piece.file).read_at(piece.base + offset, out);
    }

    /// Error(io) when a file was written to since it was opened.
    void require_unchanged() const {
        for (const auto& [number, file] : open_) {
            file.require_unchanged();
        }
    }

  private:
    const io::InputFile& file(std::uint32_t number) {
        const auto at = open_.find(number);
        return at != open_.end()
                   ? at->second
                   : open_
                         .emplace(number,
                                  io::InputFile::open(directory_ / model_.files[number].path))
                         .first->second;
    }

    const fs::path& directory_;
    const WrittenModel& model_;
    std::map<std::uint32_t, io::InputFile> open_;
};

std::string digest_of_tensor(TensorBytes& model, const catalogue::Tensor& tensor,
                             const OnPiece& on_piece) {
    io::DigestStream sum;
    std::vector<std::byte> piece;
    const Bytes size = size_of_tensor(tensor);
    for (Bytes at = 0; at < size; at += kPiece) {
        piece.resize(static_cast<std::size_t>(std::min(kPiece, size - at)));
        on_piece(piece.size(), piece.size());
        model.read(tensor, at, piece);
        sum.add(piece);
    }
    return io::hex(sum.digest());
}

std::string json_quoted(const std::string& text) {
    return nlohmann::json(text).dump();
}

/// The header's JSON, with all numbers as wide as they can be where `is_widest`.
std::string header_text(const std::vector<DeltaTensor>& tensors, bool is_widest) {
    std::string sums;
    std::string entries;
    Bytes at = 0;
    for (const DeltaTensor& tensor : tensors) {
        if (tensor.stored == 0 && !is_widest) {
            continue;
        }
        const Bytes size = is_widest ? kWidestNumber : tensor.stored;
        const Bytes end = is_widest ? kWidestNumber : at + size;
        sums +=
            (sums.empty() ? "" : ",") + json_quoted(tensor.name) + ":\"" + tensor.new_digest + "\"";
        entries += "," + json_quoted(tensor.name) + R"(:{"dtype":"U8","shape":[)" +
                   std::to_string(size) + R"(],"data_offsets":[)" +
                   std::to_string(is_widest ? kWidestNumber : at) + "," + std::to_string(end) +
                   "]}";
        at = end;
    }
    return R"({"__metadata__":{)" + sums + "}" + entries + "}";
}

/// How long the header will be at most: its place is kept before the sizes of tensors are known.
Bytes header_room(const ModelPair& pair, TensorRange part) {
    std::vector<DeltaTensor> tensors;
    for (std::size_t i = part.first; i < part.last; ++i) {
        tensors.push_back({pair.new_model.tensors[i].name, "", io::hex({}), 0});
    }
    const Bytes length = header_text(tensors, true).size();
    const Bytes whole = (outputs::kLengthField + length + kMultiple - 1) / kMultiple * kMultiple;
    if (whole > outputs::kMaxHeader) {
        throw Error(ErrorCode::unsupported, "a safetensors header of " + human_bytes(whole) +
                                                " exceeds the format's limit of 100 MB");
    }
    return whole;
}

/// Writes and proves one file.
class DeltaFileWriter {
  public:
    DeltaFileWriter(const ModelPair& pair, TensorRange part, const fs::path& path,
                    const OnPiece& on_piece)
        : pair_(pair),
          on_piece_(on_piece),
          old_(pair.old_directory, pair.old_model),
          new_(pair.new_directory, pair.new_model),
          room_(header_room(pair, part)),
          file_(io::OutputFile::create(path)) {}

    DeltaTensor write(std::size_t number) {
        const catalogue::Tensor& tensor = pair_.new_model.tensors[number];
        return in_context("tensor ", tensor.name, [&] { return write_tensor(number, tensor); });
    }

    /// The size of the file.
    Bytes finish(const std::vector<DeltaTensor>& tensors) {
        const std::string header = outputs::padded_header(header_text(tensors, false), room_);
        file_.write_at(0, std::as_bytes(std::span(header)));
        file_.resize(room_ + stored_);
        file_.sync();
        file_.close();
        return room_ + stored_;
    }

    /// Error(corrupt) unless the file makes the new tensors of the old ones.
    void prove(const std::vector<DeltaTensor>& tensors, std::size_t first) {
        const io::InputFile file = io::InputFile::open(file_.path());
        file.forget(0, file.size());
        Bytes at = room_;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (tensors[i].stored > 0) {
                in_context("tensor ", tensors[i].name, [&] {
                    prove_tensor(file, at, tensors[i], pair_.old_model.tensors[first + i]);
                });
                at += tensors[i].stored;
            }
        }
    }

    void require_unchanged() const {
        old_.require_unchanged();
        new_.require_unchanged();
    }

  private:
    DeltaTensor write_tensor(std::size_t number, const catalogue::Tensor& tensor) {
        io::DigestStream old_sum;
        io::DigestStream new_sum;
        const Bytes size = size_of_tensor(tensor);
        const Bytes begin = room_ + stored_;
        Bytes end = begin;
        const TakeBytes put = [&](std::span<const std::byte> bytes) {
            on_piece_(bytes.size(), 0);
            file_.write_at(end, bytes);
            end += bytes.size();
        };
        if (size > 0) {
            encoder_.begin(size);
        }
        for (Bytes at = 0; at < size; at += kPiece) {
            resize_pieces(std::min(kPiece, size - at));
            on_piece_(2 * new_piece_.size(), new_piece_.size());
            old_.read(pair_.old_model.tensors[number], at, old_piece_);
            new_.read(tensor, at, new_piece_);
            old_sum.add(old_piece_);
            new_sum.add(new_piece_);
            xor_into(new_piece_, old_piece_);
            encoder_.add(new_piece_, put);
        }
        DeltaTensor found{tensor.name, io::hex(old_sum.digest()), io::hex(new_sum.digest()), 0};
        if (found.old_digest != found.new_digest) {
            found.stored = end - begin;
            stored_ += found.stored;
        }
        return found;
    }

    void prove_tensor(const io::InputFile& file, Bytes begin, const DeltaTensor& found,
                      const catalogue::Tensor& old) {
        io::DigestStream sum;
        Bytes made = 0;
        const TakeBytes add = [&](std::span<const std::byte> difference) {
            require_inside(made + difference.size(), old);
            old_piece_.resize(difference.size());
            on_piece_(difference.size(), 0);
            old_.read(old, made, old_piece_);
            xor_into(old_piece_, difference);
            sum.add(old_piece_);
            made += difference.size();
        };
        decoder_.begin();
        for (Bytes at = 0; at < found.stored; at += kPiece) {
            new_piece_.resize(static_cast<std::size_t>(std::min(kPiece, found.stored - at)));
            on_piece_(new_piece_.size(), 0);
            file.read_at(begin + at, new_piece_);
            decoder_.add(new_piece_, add);
        }
        decoder_.end();
        if (made != size_of_tensor(old) || io::hex(sum.digest()) != found.new_digest) {
            throw Error(ErrorCode::corrupt, "what was written of the delta reads back otherwise",
                        "check the disk, and run the command again");
        }
    }

    static void require_inside(Bytes size, const catalogue::Tensor& tensor) {
        if (size > size_of_tensor(tensor)) {
            throw Error(ErrorCode::corrupt, "what was written of the delta is too long",
                        "check the disk, and run the command again");
        }
    }

    void resize_pieces(Bytes size) {
        old_piece_.resize(static_cast<std::size_t>(size));
        new_piece_.resize(static_cast<std::size_t>(size));
    }

    const ModelPair& pair_;
    const OnPiece& on_piece_;
    TensorBytes old_;
    TensorBytes new_;
    Bytes room_;
    io::OutputFile file_;
    Bytes stored_ = 0;  ///< behind the header
    FrameEncoder encoder_;
    FrameDecoder decoder_;
    std::vector<std::byte> old_piece_;
    std::vector<std::byte> new_piece_;
};

std::string stored_form(const catalogue::Tensor& tensor) {
    return std::string(safetensors_name(tensor.dtype)) + " " + shape_text(tensor.shape);
}

/// What one tensor is called, and in how far it differs; the first found is kept.
class FormDifferences {
  public:
    void add(const std::string& name, const std::string& found, const std::string& expected) {
        if (n_++ == 0) {
            name_ = name;
            found_ = found;
            expected_ = expected;
        }
    }

    void require_none(const ModelPair& pair) const {
        if (n_ == 0) {
            return;
        }
        Error error(ErrorCode::mismatch,
                    pair.old_directory.string() + " and " + pair.new_directory.string() +
                        " differ in the names, dtypes or shapes of " + counted(n_, "tensor"),
                    "give two steps of one run, merged with the same options");
        error.add_context("tensor " + printable(name_));
        error.add_found(found_, expected_);
        throw error;
    }

  private:
    std::size_t n_ = 0;
    std::string name_;
    std::string found_;
    std::string expected_;
};

}  // namespace

void require_same_tensors(const ModelPair& pair) {
    const auto& olds = pair.old_model.tensors;
    const auto& news = pair.new_model.tensors;
    FormDifferences differences;
    for (std::size_t i = 0, j = 0; i < olds.size() || j < news.size();) {
        if (j == news.size() || (i < olds.size() && olds[i].name < news[j].name)) {
            differences.add(olds[i].name, "no such tensor", stored_form(olds[i]));
            ++i;
        } else if (i == olds.size() || news[j].name < olds[i].name) {
            differences.add(news[j].name, stored_form(news[j]), "no such tensor");
            ++j;
        } else {
            if (olds[i].dtype != news[j].dtype || olds[i].shape != news[j].shape) {
                differences.add(olds[i].name, stored_form(news[j]), stored_form(olds[i]));
            }
            ++i;
            ++j;
        }
    }
    differences.require_none(pair);
}

std::vector<TensorRange> parts_of(const WrittenModel& model) {
    const Bytes enough = std::max(kLeastPart, model.tensor_bytes() / kMostParts);
    std::vector<TensorRange> parts;
    Bytes bytes = 0;
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
        if (parts.empty() || bytes >= enough) {
            parts.push_back({i, i});
            bytes = 0;
        }
        bytes += size_of_tensor(model.tensors[i]);
        parts.back().last = i + 1;
    }
    return parts;
}

Bytes bytes_of(const WrittenModel& model, TensorRange part) {
    Bytes bytes = 0;
    for (std::size_t i = part.first; i < part.last; ++i) {
        bytes += size_of_tensor(model.tensors[i]);
    }
    return bytes;
}

DeltaFile write_delta_file(const ModelPair& pair, TensorRange part, const fs::path& path,
                           const OnPiece& on_piece) {
    DeltaFileWriter writer(pair, part, path, on_piece);
    DeltaFile found;
    bool has_changed = false;
    for (std::size_t i = part.first; i < part.last; ++i) {
        found.tensors.push_back(writer.write(i));
        has_changed = has_changed || found.tensors.back().stored > 0;
    }
    const Bytes size = writer.finish(found.tensors);
    if (has_changed) {
        found.size = size;
        writer.prove(found.tensors, part.first);
    } else {
        fs::remove(path);
    }
    writer.require_unchanged();
    return found;
}

bool is_as_listed(const ModelPair& pair, TensorRange part,
                  const std::map<std::string, std::string>& digest_of, const OnPiece& on_piece) {
    TensorBytes old(pair.old_directory, pair.old_model);
    TensorBytes fresh(pair.new_directory, pair.new_model);
    for (std::size_t i = part.first; i < part.last; ++i) {
        const catalogue::Tensor& tensor = pair.new_model.tensors[i];
        const auto listed = digest_of.find(tensor.name);
        const std::string expected =
            listed != digest_of.end()
                ? listed->second
                : digest_of_tensor(old, pair.old_model.tensors[i],
                                   [&](Bytes moved, Bytes) { on_piece(moved, 0); });
        if (digest_of_tensor(fresh, tensor, on_piece) != expected) {
            return false;
        }
    }
    return true;
}

}  // namespace shardweld::app
