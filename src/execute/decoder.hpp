// Codes and scales as weights again: rows of a whole weight, or parts of several.
#pragma once

#include "layout/patch.hpp"
#include "plan/binding.hpp"

#include "factors.hpp"
#include "round.hpp"

namespace shardweld::execute {

/// Turns one target's codes back into weights. One thread at a time.
class Decoder {
  public:
    /// Scales are read from the file of factors, which must outlive it.
    explicit Decoder(Factors& factors) : factors_(factors) {}

    /// Scales of the tiles that rows [first, first + n) of a weight lie in; valid until the next
    /// call.
    ByteSpan scales_of(const plan::Decode& how, Bytes first, Bytes n);
    /// The divisor of the scales; 1 where there is none.
    float global_of(const plan::Decode& how);

    /// Elements [begin, end) of a target that is decoded in parts, from their codes. Each is
    /// rounded to bf16, and then cast. Error(unsupported) for a scale that is no number.
    void decode_parts(const plan::Target& target, layout::Range elements, ByteView codes,
                      ByteSpan out);

    [[nodiscard]] Bytes buffer_bytes() const {
        return scales_.used() + codes_.used() + values_.used() + cast_.used();
    }

  private:
    /// Codes and values of a slice of a target, and what they belong to.
    struct CodedSlice {
        const plan::Decode& how;
        DType written;
        ByteView codes;
        ByteSpan out;
    };
    void decode_part(const CodedSlice& slice, const layout::Copy& part, layout::Range elements);
    void decode(const CodedSlice& slice, const layout::Patch& patch);
    void decode_rows(const CodedSlice& slice, const layout::Patch& patch);
    void decode_row(const CodedSlice& slice, const layout::Patch& patch, Index row);
    void decode_turned(const CodedSlice& slice, const layout::Patch& patch);
    void write_values(const CodedSlice& slice, ByteView values, const layout::Copy& copy);

    Factors& factors_;
    Buffer scales_, codes_, values_, cast_;
};

}  // namespace shardweld::execute
