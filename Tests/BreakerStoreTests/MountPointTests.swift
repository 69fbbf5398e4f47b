import BreakerStore
import Testing

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
