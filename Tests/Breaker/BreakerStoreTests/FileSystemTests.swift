import BreakerStore
import Testing

@Suite struct NetworkFileSystemTests {
  @Test(
    arguments: [
      (0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2"), (0x0102_1997, "9P"),
      (0x00C3_6400, "Ceph"),
    ] as [(UInt64, String)])
  func `a network file system is recognized by its number`(type: UInt64, name: String) {
    #expect(FileSystem.networkName(type: type, device: "0:1", mounts: { "" }) == name)
  }

  @Test(arguments: [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630] as [UInt64])
  func `a local file system is not mistaken for a network file system`(type: UInt64) {
    #expect(FileSystem.networkName(type: type, device: "0:1", mounts: { "" }) == nil)
  }

  @Test func `a network file system in user space is recognized by the mount table`() {
    let mounts = """
      36 35 0:52 / /mnt/remote rw,relatime shared:1 - fuse.sshfs host:/ rw,user_id=0
      37 35 0:53 / /mnt/local rw,relatime - fuse.bindfs /home rw
      38 35 0:54 / /mnt/shared rw master:7 - virtiofs tag rw
      """
    func name(_ device: String) -> String? {
      FileSystem.networkName(type: 0x6573_5546, device: device, mounts: { mounts })
    }
    #expect(name("0:52") == "fuse.sshfs")
    #expect(name("0:53") == nil)
    #expect(name("0:54") == "virtiofs")
    #expect(name("0:99") == nil)
  }
}

@Suite struct MountPointTests {
  @Test func `mount points are read with the characters that the mount table writes as numbers`() {
    let mounts = #"""
      36 35 0:52 / /mnt/remote rw,relatime shared:1 - ext4 /dev/vda rw
      37 35 0:53 /a\040b /srv/a\040b\134040/breakers.db rw,relatime - ext4 /dev/vda rw
      damaged
      """#
    #expect(
      FileSystem.mountPoints(in: mounts) == ["/mnt/remote", #"/srv/a b\040/breakers.db"#])
  }
}
