#include "staging.h"

#include <mshadow/base.h>
#include <mshadow/bfloat.h>

#include <cstring>

namespace fused_rnn {
namespace mx {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
void AddTo(char* sum, const void* term, size_t bytes) {
  T* to = reinterpret_cast<T*>(sum);
  const T* from = static_cast<const T*>(term);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] += from[i];
}

}  // namespace

void Staging::AddInput(const void* data, size_t bytes) {
  const char* begin = static_cast<const char*>(data);
  inputs_.push_back({begin, begin + bytes});
}

int Staging::AddOutput(void* data, size_t bytes, mxnet::OpReqType request, bool core_adds) {
  const bool adds = request == mxnet::kAddTo;
  Request core_request = adds && core_adds ? Request::kAdd : Request::kWrite;
  if (request == mxnet::kNullOp) core_request = Request::kNull;
  outputs_.push_back(
      {static_cast<char*>(data), bytes, request, adds && !core_adds, core_request, nullptr});
  return static_cast<int>(outputs_.size()) - 1;
}

int Staging::AddUnwanted(size_t bytes) {
  outputs_.push_back({nullptr, bytes, mxnet::kNullOp, true, Request::kWrite, nullptr});
  return static_cast<int>(outputs_.size()) - 1;
}

bool Staging::Overlaps(const Output& output) const {
  const char* begin = output.data;
  const char* end = begin + output.bytes;
  for (const Range& input : inputs_) {
    if (begin < input.end && input.begin < end) return true;
  }
  for (const Output& other : outputs_) {
    if (&other == &output || other.wanted == mxnet::kNullOp) continue;
    if (begin < other.data + other.bytes && other.data < end) return true;
  }
  return false;
}

void Staging::Place() {
  size_t bytes = 0;
  for (Output& output : outputs_) {
    if (output.wanted != mxnet::kNullOp && Overlaps(output)) {
      output.staged = true;
      output.request = Request::kWrite;
    }
    if (output.staged) bytes += Aligned(output.bytes);
  }
  char* free = bytes > 0 ? static_cast<char*>(scratch_.Resize(bytes)) : nullptr;
  for (Output& output : outputs_) {
    if (output.staged) {
      output.target = free;
      free += Aligned(output.bytes);
    } else if (output.wanted != mxnet::kNullOp) {
      output.target = output.data;
    }
  }
}

void Staging::Commit(int mxnet_type) const {
  for (const Output& output : outputs_) {
    if (!output.staged || output.wanted == mxnet::kNullOp) continue;
    if (output.wanted != mxnet::kAddTo) {
      std::memcpy(output.data, output.target, output.bytes);
    } else if (mxnet_type == mshadow::kFloat32) {
      AddTo<float>(output.data, output.target, output.bytes);
    } else if (mxnet_type == mshadow::kFloat64) {
      AddTo<double>(output.data, output.target, output.bytes);
    } else if (mxnet_type == mshadow::kFloat16) {
      AddTo<mshadow::half::half_t>(output.data, output.target, output.bytes);
    } else {
      AddTo<mshadow::bfloat::bf16_t>(output.data, output.target, output.bytes);
    }
  }
}

}  // namespace mx
}  // namespace fused_rnn
