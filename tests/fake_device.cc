// A device of TVM's kind `ext_dev` whose memory is that of the process. It knows each of its
// blocks, so that a kernel can tell whether what it is given is on the device.

#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/device_api.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

using tvm::runtime::DeviceAPI;
using tvm::runtime::DeviceAttrKind;

class FakeDevice final : public DeviceAPI {
 public:
  void SetDevice(tvm::Device) final {}
  void StreamSync(tvm::Device, TVMStreamHandle) final {}

  void GetAttr(tvm::Device device, DeviceAttrKind kind, tvm::ffi::Any* result) final {
    if (kind == tvm::runtime::kExist) *result = device.device_id == 0;
  }

  void* AllocDataSpace(tvm::Device, size_t size, size_t alignment, DLDataType) final {
    size_t rounded = (size / alignment + 1) * alignment;
    char* block = static_cast<char*>(std::aligned_alloc(alignment, rounded));
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_[block] = rounded;
    return block;
  }

  void FreeDataSpace(tvm::Device, void* block) final {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.erase(static_cast<char*>(block));
    std::free(block);
  }

  bool Holds(char* address) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return false;
    --after;
    return address < after->first + after->second;
  }

  int64_t copied_in = 0;
  int64_t copied_out = 0;

 protected:
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset,
                      size_t size, tvm::Device source, tvm::Device target, DLDataType,
                      TVMStreamHandle) final {
    if (target.device_type == kDLExtDev && source.device_type != kDLExtDev) ++copied_in;
    if (source.device_type == kDLExtDev && target.device_type != kDLExtDev) ++copied_out;
    std::memcpy(static_cast<char*>(to) + to_offset, static_cast<const char*>(from) + from_offset,
                size);
  }

 private:
  std::mutex mutex_;
  std::map<char*, size_t> blocks_;
};

// Never freed: tensors of the device may live until the process ends.
FakeDevice* const device = new FakeDevice();

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("device_api.ext_dev",
                  [](tvm::ffi::PackedArgs, tvm::ffi::Any* result) {
                    *result = static_cast<void*>(static_cast<DeviceAPI*>(device));
                  })
      .def("fake_device.holds",
           [](int64_t address) { return device->Holds(reinterpret_cast<char*>(address)); })
      .def("fake_device.copied_in", []() { return device->copied_in; })
      .def("fake_device.copied_out", []() { return device->copied_out; });
}

}  // namespace
