internal import BreakerCore
internal import BreakerDocuments
internal import CSharedBreaker
internal import SharedBreaker

@c @implementation
package func sb_snapshot(
  _ store: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ name_length: Int64,
  _ json: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe give(to: store, json, length) { () throws(Failure) in
    let store = try unsafe ClosableStore.at(store).usable
    let name = try unsafe CText.required(name, name_length, "name")
    return try throwingFailures { () throws(StoreError) in try store.snapshot(of: name) }
  }
}

@c @implementation
package func sb_breaker_snapshot(
  _ breaker: OpaquePointer?, _ json: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe give(to: breaker, json, length) { () throws(Failure) in
    try unsafe BreakerHandle.usable(breaker).0.snapshot()
  }
}

/// Gives the caller the document of a snapshot, if there is such a breaker.
private func give(
  to pointer: OpaquePointer?, _ json: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?, _ look: () throws(Failure) -> BreakerSnapshot?
) -> CInt {
  unsafe answer(pointer) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(json, length)
    guard let snapshot = try look() else { return SB_NOT_FOUND }
    try receiver.take(JSONValue.object(BreakerDocument.members(of: snapshot)).text)
    return SB_OK
  }
}

@c @implementation
package func sb_list(
  _ store: OpaquePointer?, _ prefix: UnsafePointer<CChar>?, _ prefix_length: Int64,
  _ json: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(json, length)
    let store = try unsafe ClosableStore.at(store).usable
    let prefix = try unsafe CText.read(prefix, prefix_length, "prefix") ?? ""
    let snapshots = try throwingFailures { () throws(StoreError) in
      try store.snapshots(beginningWith: prefix)
    }
    var document: [UInt8] = []
    BreakerDocument.write(snapshots) { document += $0.utf8 }
    // The command ends its line.
    try receiver.take(document.dropLast())
    return SB_OK
  }
}

@c @implementation
package func sb_history(
  _ store: OpaquePointer?, _ name: UnsafePointer<CChar>?, _ name_length: Int64, _ after: Int64,
  _ limit: Int64, _ json: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?,
  _ length: UnsafeMutablePointer<Int64>?, _ last: UnsafeMutablePointer<Int64>?
) -> CInt {
  unsafe answer(store) { () throws(Failure) in
    let receiver = try unsafe TextReceiver(json, length)
    guard let last = unsafe last else { throw .argument("there is no place for the last entry") }
    let store = try unsafe ClosableStore.at(store).usable
    let name = try unsafe CText.read(name, name_length, "name")
    guard after >= 0 else { throw .argument("after is \(after): give 0 for the beginning") }
    guard (1...10_000).contains(limit) else {
      throw .argument("limit is \(limit): give 1 to 10,000")
    }
    let page = try throwingFailures { () throws(StoreError) in
      try store.entries(after: after, of: name, limit: Int(limit))
    }
    try receiver.take(JSONValue.array(page.entries.map(EntryDocument.of)).text)
    unsafe last.pointee = page.last
    return SB_OK
  }
}
