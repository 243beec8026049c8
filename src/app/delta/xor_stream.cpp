#include "xor_stream.hpp"

#include <cstring>
#include <new>
#include <string>

#include <zstd.h>

#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr int kLevel = 1;

/// Error(code) where a call of libzstd failed; else what it returned.
std::size_t zstd_checked(std::size_t result, ErrorCode code) {
    if (ZSTD_isError(result) != 0U) {
        throw Error(code, std::string("zstd: ") + ZSTD_getErrorName(result));
    }
    return result;
}

}  // namespace

void xor_into(std::span<std::byte> into, std::span<const std::byte> other) {
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= into.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t a = 0;
        std::uint64_t b = 0;
        std::memcpy(&a, into.data() + at, sizeof a);
        std::memcpy(&b, other.data() + at, sizeof b);
        a ^= b;
        std::memcpy(into.data() + at, &a, sizeof a);
    }
    for (; at < into.size(); ++at) {
        into[at] ^= other[at];
    }
}

struct FrameEncoder::Context {
    struct Free {
        void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
    };
    std::unique_ptr<ZSTD_CCtx, Free> zstd{ZSTD_createCCtx()};
};

FrameEncoder::FrameEncoder()
    : context_(std::make_unique<Context>()), buffer_(ZSTD_CStreamOutSize()) {
    if (context_->zstd == nullptr) {
        throw std::bad_alloc();
    }
}
FrameEncoder::~FrameEncoder() = default;

void FrameEncoder::begin(Bytes size) {
    ZSTD_CCtx* const zstd = context_->zstd.get();
    (void)zstd_checked(ZSTD_CCtx_reset(zstd, ZSTD_reset_session_and_parameters),
                       ErrorCode::internal);
    (void)zstd_checked(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, kLevel),
                       ErrorCode::internal);
    (void)zstd_checked(ZSTD_CCtx_setPledgedSrcSize(zstd, size), ErrorCode::internal);
    left_ = size;
}

void FrameEncoder::add(std::span<const std::byte> bytes, const TakeBytes& take) {
    left_ -= bytes.size();
    const ZSTD_EndDirective mode = left_ == 0 ? ZSTD_e_end : ZSTD_e_continue;
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool is_done = false; !is_done;) {
        ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
        const std::size_t waiting = zstd_checked(
            ZSTD_compressStream2(context_->zstd.get(), &out, &in, mode), ErrorCode::internal);
        if (out.pos > 0) {
            take(std::span<const std::byte>(buffer_).first(out.pos));
        }
        is_done = mode == ZSTD_e_end ? waiting == 0 : in.pos == in.size;
    }
}

struct FrameDecoder::Context {
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    std::unique_ptr<ZSTD_DCtx, Free> zstd{ZSTD_createDCtx()};
};

FrameDecoder::FrameDecoder()
    : context_(std::make_unique<Context>()), buffer_(ZSTD_DStreamOutSize()) {
    if (context_->zstd == nullptr) {
        throw std::bad_alloc();
    }
}
FrameDecoder::~FrameDecoder() = default;

void FrameDecoder::begin() {
    (void)zstd_checked(ZSTD_DCtx_reset(context_->zstd.get(), ZSTD_reset_session_only),
                       ErrorCode::internal);
    is_whole_ = false;
}

void FrameDecoder::add(std::span<const std::byte> bytes, const TakeBytes& take) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    bool is_full = false;
    while (in.pos < in.size || is_full) {
        if (is_whole_) {
            throw Error(ErrorCode::corrupt, "zstd: bytes behind the frame");
        }
        ZSTD_outBuffer out{buffer_.data(), buffer_.size(), 0};
        is_whole_ = zstd_checked(ZSTD_decompressStream(context_->zstd.get(), &out, &in),
                                 ErrorCode::corrupt) == 0;
        is_full = out.pos == out.size && !is_whole_;
        if (out.pos > 0) {
            take(std::span<const std::byte>(buffer_).first(out.pos));
        }
    }
}

void FrameDecoder::end() const {
    if (!is_whole_) {
        throw Error(ErrorCode::corrupt, "zstd: the frame is not complete");
    }
}

}  // namespace shardweld::app
